package io.plimsoll.memory;

import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.OptionalLong;

/**
 * The worth of more memory to a cache, by a ghost list of keys that it evicted lately. A miss of
 * one of these would be a hit in a cache that is larger by as much as the list stands for. Pure: it
 * has no clock. Not safe for use by several threads at once.
 *
 * <p>It takes some 120 bytes for each of an eighth of the cache's entries. A cache with very many
 * small ones can tell it of every n-th hash alone, and multiply bytes and costs by n.
 */
public final class Ghost {
  private static final long MIB = 1 << 20;
  private static final double SECOND = 1e9;

  /** The list stands for one part in this many of the cache's size more, and for a MiB at least. */
  private static final long PART = 8;

  /** The shortest time over which is measured, nanoseconds. */
  private static final long MEASURE_OVER = 1_000_000_000;

  /** The worth of before is forgotten over this time, nanoseconds. */
  private static final long SMOOTH_OVER = 8_000_000_000L;

  /** The bytes of each key's entry. The key that was evicted first comes first. */
  private final Map<Long, Long> keys = new LinkedHashMap<>();

  private long held;
  private long capacity = MIB;

  /** The time that hits in the list would have saved since {@link #begun}, nanoseconds. */
  private long saved;

  private long begun;

  /** Nanoseconds per second and MiB, smoothed; negative before the first measurement. */
  private double worth = -1;

  /**
   * Makes the empty list of a cache that begins now.
   *
   * @param now the time, nanoseconds since any fixed moment
   */
  public Ghost(long now) {
    begun = now;
  }

  /**
   * Returns whether a miss of a key would count now.
   *
   * @param key a hash of the key
   * @return true if it was evicted lately
   */
  public boolean has(long key) {
    return keys.containsKey(key);
  }

  /**
   * Tells that the cache has dropped an entry to make room.
   *
   * @param key a hash of its key
   * @param bytes its size, bytes
   * @param left the size of the cache now, bytes
   */
  public void evicted(long key, long bytes, long left) {
    forget(key);
    keys.put(key, bytes);
    held = Saturating.plus(held, bytes);
    capacity = Math.max(left / PART, MIB);
    Iterator<Long> sizes = keys.values().iterator();
    while (held > capacity && sizes.hasNext()) {
      held -= sizes.next();
      sizes.remove();
    }
  }

  /**
   * Tells that the cache did not have an entry.
   *
   * @param key a hash of its key
   * @param cost how long making it took, nanoseconds
   */
  public void missed(long key, long cost) {
    if (forget(key)) {
      saved = Saturating.plus(saved, cost);
    }
  }

  /**
   * Returns the time that one more MiB would have saved the cache lately, to be reported as {@link
   * Report#worth}.
   *
   * @param now the time, nanoseconds
   * @return nanoseconds per second; empty in the first second
   */
  public OptionalLong worth(long now) {
    double took = now - begun;
    if (took >= MEASURE_OVER) {
      double rate = saved / (took / SECOND) / ((double) capacity / MIB);
      double part = took / (took + SMOOTH_OVER);
      worth = worth < 0 ? rate : worth + part * (rate - worth);
      saved = 0;
      begun = now;
    }
    return worth < 0 ? OptionalLong.empty() : OptionalLong.of(Math.round(worth));
  }

  private boolean forget(long key) {
    Long bytes = keys.remove(key);
    held -= bytes == null ? 0 : bytes;
    return bytes != null;
  }
}
