package io.plimsoll.memory;

/**
 * The numbers of a principal at one moment. Sizes are bytes, times are nanoseconds of {@code
 * CLOCK_MONOTONIC}, which is the clock of {@link System#nanoTime()} on Linux. No number is
 * negative: one that is too large for a {@code long} is shown as {@link Long#MAX_VALUE}.
 *
 * @param limit the memory that may be used now
 * @param available the memory that could be had if it asked
 * @param owed the memory that must be given back, 0 when nothing
 * @param deadline when it must have been given back, 0 when nothing is owed
 * @param uses the memory that is accounted to it
 * @param share its guaranteed weighted share if it wants that; 0 where no broker runs
 * @param level how urgent the numbers are
 * @param sensed when {@code uses} was read; 0 from a broker that does not say
 * @param source where the numbers come from
 * @param generation counts changes of the numbers; starts again when the source changes
 * @param heartbeat the source's last sign of life
 */
public record Numbers(
    long limit,
    long available,
    long owed,
    long deadline,
    long uses,
    long share,
    Level level,
    long sensed,
    Source source,
    long generation,
    long heartbeat) {

  /** The numbers before anything was sensed. */
  public static final Numbers NOTHING =
      new Numbers(0, 0, 0, 0, 0, 0, Level.NORMAL, 0, Source.LOCAL, 0, 0);

  /**
   * Returns the memory by which the principal may grow now.
   *
   * @return bytes; 0 at the limit and above it
   */
  public long room() {
    return Math.max(limit - uses, 0);
  }

  /** The time up to which the numbers show what was given back. */
  long asOf() {
    // An older broker does not say when it looked. Its last sign of life stands for that.
    return sensed == 0 && source != Source.LOCAL ? heartbeat : sensed;
  }

  /** The numbers as they will be once {@code paid} bytes that were given back are seen. */
  Numbers without(long paid) {
    if (paid == 0) {
      return this;
    }
    long left = Math.max(owed - paid, 0);
    boolean isPaid = owed > 0 && left == 0;
    return new Numbers(
        limit,
        available,
        left,
        isPaid ? 0 : deadline,
        Math.max(uses - paid, 0),
        share,
        isPaid ? Level.NORMAL : level,
        sensed,
        source,
        generation,
        heartbeat);
  }

  /** The same numbers from another source, which counts its changes by itself. */
  Numbers from(Source source, long generation, long heartbeat) {
    return new Numbers(
        limit,
        available,
        owed,
        deadline,
        uses,
        share,
        level,
        sensed,
        source,
        generation,
        heartbeat);
  }

  /** Whether nothing that readers act upon differs: limit, available, owed, deadline, level. */
  boolean isSameAs(Numbers other) {
    return limit == other.limit
        && available == other.available
        && owed == other.owed
        && deadline == other.deadline
        && level == other.level;
  }
}
