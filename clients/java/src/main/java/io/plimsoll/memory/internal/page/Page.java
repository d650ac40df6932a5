package io.plimsoll.memory.internal.page;

import io.plimsoll.memory.Level;
import io.plimsoll.memory.Numbers;
import io.plimsoll.memory.Source;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * An availability page: 4096 bytes of shared memory for each principal, written by the broker only.
 * Reading it takes no lock and no system call, and never fails.
 *
 * <p>A program that may write to the file could truncate it. HotSpot then skips the load, so that
 * the word has any value, even the right one, and throws an InternalError at a later point of this
 * thread. So each reading ends with a copy of the page's beginning into fresh memory. That stays
 * zero if the page is gone, and then the error is called for, and caught here.
 */
public final class Page {
  /** The size of a page, bytes. */
  public static final int SIZE = 4096;

  /** A broker whose heartbeat is older than this is gone, nanoseconds. */
  public static final long STALE_AFTER = 3_000_000_000L;

  /** {@code PLIMSOLL}, as a little-endian number. */
  static final long MAGIC = 0x4c4c_4f53_4d49_4c50L;

  /** The version of the layout that is read here. */
  static final int VERSION = 1;

  /** Offsets of the fields. Each is a number of 64 bits, but version and size have 32. */
  static final int AT_MAGIC = 0;

  static final int AT_VERSION = 8;
  static final int AT_SEQUENCE = 16;
  static final int AT_LIMIT = 24;
  static final int AT_AVAILABLE = 32;
  static final int AT_OWED = 40;
  static final int AT_DEADLINE = 48;
  static final int AT_USES = 56;
  static final int AT_SHARE = 64;
  static final int AT_LEVEL = 72;
  static final int AT_HEARTBEAT = 80;
  static final int AT_GENERATION = 88;
  static final int AT_ID = 96;
  static final int AT_SENSED = 104;

  /**
   * Tries before a reader gives up on an odd sequence. A writer keeps it odd for three short system
   * calls; a writer that died in between keeps it odd for ever.
   */
  private static final int TRIES = 1000;

  private static final VarHandle WORDS =
      MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

  private static final VarHandle BYTES =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

  private static final Level[] LEVELS = Level.values();

  /** Too many arrays for a compiler to make them without a call, and a place that keeps them. */
  private static final int ARRAYS = 64;

  @SuppressWarnings("unused")
  private static volatile Object delivered;

  private final ByteBuffer buffer;

  /**
   * Makes a view of a page.
   *
   * @param buffer a direct buffer of 4096 bytes, aligned to 8
   */
  public Page(ByteBuffer buffer) {
    this.buffer = buffer;
  }

  /**
   * Returns why this is no page that can be read here.
   *
   * @return the reason; null when it is one
   */
  public String fault() {
    try {
      long form = word(AT_VERSION);
      if (!isThere()) {
        deliverFault();
        return "it does not begin with PLIMSOLL: it is no availability page, or was truncated";
      }
      String version = Integer.toUnsignedString((int) form);
      long size = form >>> 32;
      if ((int) form != VERSION) {
        return "its layout version is " + version + ", not 1: update the older of the two";
      }
      return size == SIZE ? null : "it says that it is " + size + " bytes long, expected 4096";
    } catch (InternalError truncated) {
      return "it was truncated";
    }
  }

  /**
   * Returns the number of the principal whose page it is.
   *
   * @return the number
   */
  public long id() {
    return positive(word(AT_ID));
  }

  /**
   * Returns the memory that may be used now.
   *
   * @return bytes; 0 when nothing was published or the page is gone
   */
  public long limit() {
    try {
      long limit = positive(word(AT_LIMIT));
      if (isThere()) {
        return limit;
      }
      deliverFault();
      return 0;
    } catch (InternalError truncated) {
      return 0;
    }
  }

  /**
   * Reads a consistent set of numbers, by sequence lock.
   *
   * @param source the source that the numbers are to show
   * @return the numbers; null when nothing was published yet, the page is gone, or its writer died
   *     while it wrote. To find that out takes some microseconds at most
   */
  public Numbers read(Source source) {
    try {
      Numbers numbers = attempt(source);
      return numbers != null ? numbers : retry(source);
    } catch (InternalError truncated) {
      return null;
    }
  }

  /**
   * Returns whether the page's broker is gone, judged by the heartbeat.
   *
   * @param now nanoseconds of {@code CLOCK_MONOTONIC}
   * @return whether the heartbeat is too old
   */
  public boolean isStale(long now) {
    try {
      long heartbeat = positive(word(AT_HEARTBEAT));
      if (isThere()) {
        return isStale(heartbeat, now);
      }
      deliverFault();
      return true;
    } catch (InternalError truncated) {
      return true;
    }
  }

  /**
   * Returns whether a heartbeat is too old.
   *
   * @param heartbeat nanoseconds of {@code CLOCK_MONOTONIC}
   * @param now the same
   * @return whether it is
   */
  public static boolean isStale(long heartbeat, long now) {
    return heartbeat < now && now - heartbeat > STALE_AFTER;
  }

  /**
   * Decodes a level. A level above critical, which a newer broker may add, counts as critical.
   *
   * @param number the number on a page
   * @return the level
   */
  static Level level(long number) {
    return LEVELS[number == 0 || number == 1 ? (int) number : 2];
  }

  private Numbers retry(Source source) {
    for (int tries = 0; tries < TRIES && isThere() && word(AT_SEQUENCE) != 0; tries++) {
      Thread.onSpinWait();
      Numbers numbers = attempt(source);
      if (numbers != null) {
        return numbers;
      }
    }
    deliverFault();
    return null;
  }

  private Numbers attempt(Source source) {
    long before = (long) WORDS.getAcquire(buffer, AT_SEQUENCE);
    Numbers numbers =
        new Numbers(
            positive(field(AT_LIMIT)),
            positive(field(AT_AVAILABLE)),
            positive(field(AT_OWED)),
            positive(field(AT_DEADLINE)),
            positive(field(AT_USES)),
            positive(field(AT_SHARE)),
            level(field(AT_LEVEL)),
            positive(field(AT_SENSED)),
            source,
            positive(field(AT_GENERATION)),
            positive(field(AT_HEARTBEAT)));
    VarHandle.acquireFence();
    boolean isWhole = word(AT_SEQUENCE) == before && (before & 1) == 0 && before != 0;
    return isThere() && isWhole ? numbers : null;
  }

  /** Whether the page was there until now: if it was, all earlier loads were of the page. */
  private boolean isThere() {
    VarHandle.acquireFence();
    byte[] copy = new byte[2 * Long.BYTES];
    buffer.get(AT_MAGIC, copy, 0, copy.length);
    return (long) BYTES.get(copy, 0) == MAGIC;
  }

  /**
   * One of several loads between two of the sequence. An aligned one is whole (on 64 bits), and
   * without an order of its own the compiler checks the buffer once for all.
   */
  private long field(int offset) {
    return (long) WORDS.get(buffer, offset);
  }

  private long word(int offset) {
    return (long) WORDS.getOpaque(buffer, offset);
  }

  /** A number of 64 bits without sign, as a long that is not negative. */
  private static long positive(long word) {
    return word < 0 ? Long.MAX_VALUE : word;
  }

  /**
   * Throws the InternalError of an earlier load. HotSpot of 17 throws it at the end of a call into
   * its runtime, and not at the end of a native method. An array of arrays takes that call.
   */
  private static void deliverFault() {
    delivered = new byte[ARRAYS][1];
  }
}
