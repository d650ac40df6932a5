package io.plimsoll.memory.cache;

import io.plimsoll.memory.internal.sensing.Resident;
import java.util.concurrent.locks.LockSupport;

/**
 * Frees entries that were dropped by a collection, and measures how much memory went. Used by one
 * thread.
 */
final class Freeing {
  /** Collections that we ask for take one part in this many of the time at most. */
  private static final long PART = 10;

  /** Direct buffers are freed by another thread, a moment after the collection. Nanoseconds. */
  private static final long MOMENT = 20_000_000;

  private long earliest = System.nanoTime();

  /** Whether a collection may be asked for now. */
  boolean isDue() {
    return System.nanoTime() - earliest >= 0;
  }

  /** Asks for a collection. Returns how much less memory is resident after it, bytes. */
  long collect() {
    long before = Resident.ofSelf();
    long began = System.nanoTime();
    System.gc();
    long ended = System.nanoTime();
    LockSupport.parkNanos(MOMENT);
    earliest = ended + (ended - began) * (PART - 1);
    return Math.max(before - Resident.ofSelf(), 0);
  }
}
