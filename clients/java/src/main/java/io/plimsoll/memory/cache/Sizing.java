package io.plimsoll.memory.cache;

import io.plimsoll.memory.Numbers;

/** How large a cache may be. Pure: no clock and no I/O. Sizes are bytes. */
final class Sizing {
  /** A cache grows by one part in this many of the room at a time: others may grow as well. */
  private static final long GROW_PART = 2;

  /** A debt is paid in this many steps, of a size at least, so that no step stops the program. */
  private static final long STEPS = 8;

  private static final long LEAST_STEP = 1 << 20;

  /** A collector needs free heap: a cache in it takes at most one part in this many of the heap. */
  private static final long HEAP_PART = 2;

  private Sizing() {}

  /**
   * The size up to which the cache may grow now. It grows only while the use is below the limit.
   */
  static long maximum(Numbers now, long weight, long minimum, long bound) {
    long room = now.owed() > 0 ? 0 : now.room();
    return Math.max(minimum, Math.min(bound, weight + room / GROW_PART));
  }

  /** The size to shrink to in the next step, of a debt that is {@code owed} as a whole. */
  static long step(long owed, long left, long weight, long minimum) {
    long step = Math.min(left, Math.max(owed / STEPS, LEAST_STEP));
    return Math.max(minimum, weight - step);
  }

  /** The pause between two steps, so that all are done in half of the time that is left. */
  static long pause(long deadline, long now) {
    return Math.max(deadline - now, 0) / (2 * STEPS);
  }

  /** The most of a heap that may be in the cache: the heap may still grow by the room. */
  static long heapBound(long committed, long most, Numbers now) {
    long heap = Math.min(most, committed + now.room());
    return (heap < 0 ? most : heap) / HEAP_PART;
  }

  /** Whether a figure differs enough from the one that was told, to be told. */
  static boolean isNews(long told, long now) {
    return Math.abs(told - now) > told / 16;
  }
}
