package io.plimsoll.memory;

import java.util.Arrays;
import java.util.function.ObjLongConsumer;

/**
 * The knowledge that a program has of itself, for {@link Principal#report}. A program leaves out
 * the facts that it does not know; they keep the value that was reported last. Not safe for use by
 * several threads at once; {@code report} takes a copy.
 */
public final class Report {
  private static final long UNKNOWN = -1;

  /** The names on the wire, in the order of {@link #values}. */
  private static final String[] NAMES = {
    "live",
    "allocation_rate",
    "collection_speed",
    "demand",
    "floor",
    "reaction_ms",
    "collections",
    "collection_ms",
    "worth"
  };

  private static final int WORTH = 8;

  private final long[] values = new long[NAMES.length];

  /** Makes a report without any fact. */
  public Report() {
    Arrays.fill(values, UNKNOWN);
  }

  /**
   * Sets the bytes that the last full collection found alive.
   *
   * @param bytes bytes
   * @return this report
   */
  public Report live(long bytes) {
    return set(0, bytes);
  }

  /**
   * Sets how fast the program allocates.
   *
   * @param bytes bytes per second
   * @return this report
   */
  public Report allocationRate(long bytes) {
    return set(1, bytes);
  }

  /**
   * Sets how fast a collection works.
   *
   * @param bytes bytes that a collection processes in a second
   * @return this report
   */
  public Report collectionSpeed(long bytes) {
    return set(2, bytes);
  }

  /**
   * Sets the most memory that the program can use. Memory beyond this goes to others.
   *
   * @param bytes bytes
   * @return this report
   */
  public Report demand(long bytes) {
    return set(3, bytes);
  }

  /**
   * Sets the least memory that the program can reach by adapting.
   *
   * @param bytes bytes
   * @return this report
   */
  public Report floor(long bytes) {
    return set(4, bytes);
  }

  /**
   * Sets how long it took to give memory back. The program gets deadlines that it can keep.
   *
   * @param milliseconds milliseconds
   * @return this report
   */
  public Report reactionMs(long milliseconds) {
    return set(5, milliseconds);
  }

  /**
   * Sets the collections since the program started.
   *
   * @param count a count
   * @return this report
   */
  public Report collections(long count) {
    return set(6, count);
  }

  /**
   * Sets the time that collections took since the program started.
   *
   * @param milliseconds milliseconds
   * @return this report
   */
  public Report collectionMs(long milliseconds) {
    return set(7, milliseconds);
  }

  /**
   * Sets what more memory is worth to a cache: the time that it would save with one more MiB. See
   * {@link Ghost}.
   *
   * @param nanoseconds nanoseconds per second
   * @return this report
   */
  public Report worth(long nanoseconds) {
    return set(WORTH, nanoseconds);
  }

  boolean hasWorth() {
    return values[WORTH] != UNKNOWN;
  }

  /** The same without the worth. */
  Report withoutWorth() {
    Report copy = copy();
    copy.values[WORTH] = UNKNOWN;
    return copy;
  }

  /** Takes over all that another report knows. */
  void merge(Report newer) {
    for (int fact = 0; fact < values.length; fact++) {
      if (newer.values[fact] != UNKNOWN) {
        values[fact] = newer.values[fact];
      }
    }
  }

  Report copy() {
    Report copy = new Report();
    copy.merge(this);
    return copy;
  }

  boolean isEmpty() {
    return Arrays.stream(values).allMatch(value -> value == UNKNOWN);
  }

  /** Gives each known fact with its name on the wire. */
  void forEach(ObjLongConsumer<String> taker) {
    for (int fact = 0; fact < values.length; fact++) {
      if (values[fact] != UNKNOWN) {
        taker.accept(NAMES[fact], values[fact]);
      }
    }
  }

  private Report set(int fact, long value) {
    if (value < 0) {
      throw new IllegalArgumentException(NAMES[fact] + " is " + value + ": give 0 or more");
    }
    values[fact] = value;
    return this;
  }
}
