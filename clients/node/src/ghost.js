/**
 * The worth of more memory to a cache, by a ghost list of keys that it evicted lately. A miss of one of
 * these would be a hit in a cache that is larger by as much as the list stands for. Pure: no clock.
 *
 * @module
 */

const MIB = 2 ** 20;
const SECOND = 1e9;
/** The list stands for one part in this many of the cache's size more, and for a MiB at least. */
const PART = 8;
/** The shortest time over which is measured, ns. */
const MEASURE_OVER = SECOND;
/** The worth of before is forgotten over this time, ns. */
const SMOOTH_OVER = 8 * SECOND;

/**
 * The keys that a cache evicted last. It keeps the keys themselves: some 100 bytes for each of an eighth of
 * the cache's entries, and the key. A cache with very many small ones can tell it of one key in n alone, and
 * multiply bytes and costs by n.
 *
 * @template [K=unknown]
 */
export class Ghost {
  /** The bytes of each key's entry. The key that was evicted first comes first. @type {Map<K, number>} */
  #keys = new Map();
  #held = 0;
  #capacity = MIB;
  /** Time that hits in the list would have saved since `#begun`, ns. */
  #saved = 0;
  #begun;
  /** ns per second and MiB, smoothed. @type {number | null} */
  #worth = null;

  /** @param {number} now when the cache begins, ns */
  constructor(now) {
    this.#begun = now;
  }

  /**
   * Whether a miss of this key would count.
   *
   * @param {K} key
   */
  has(key) {
    return this.#keys.has(key);
  }

  /**
   * The cache has dropped an entry to make room.
   *
   * @param {K} key
   * @param {number} bytes its size
   * @param {number} left the size of the cache now, bytes
   */
  evicted(key, bytes, left) {
    this.#forget(key);
    this.#keys.set(key, bytes);
    this.#held += bytes;
    this.#capacity = Math.max(Math.floor(left / PART), MIB);
    for (const oldest of this.#keys.keys()) {
      if (this.#held <= this.#capacity) break;
      this.#forget(oldest);
    }
  }

  /**
   * The cache did not have an entry.
   *
   * @param {K} key
   * @param {number} cost how long making it took, ns
   */
  missed(key, cost) {
    if (this.#forget(key)) this.#saved += cost;
  }

  /**
   * The nanoseconds per second that one more MiB would have saved lately, to be reported as `worth`.
   *
   * @param {number} now ns
   * @returns {number | null} null in the first second
   */
  worth(now) {
    const took = now - this.#begun;
    if (took >= MEASURE_OVER) {
      const rate = this.#saved / (took / SECOND) / (this.#capacity / MIB);
      const part = took / (took + SMOOTH_OVER);
      this.#worth = this.#worth === null ? rate : this.#worth + part * (rate - this.#worth);
      this.#saved = 0;
      this.#begun = now;
    }
    return this.#worth === null ? null : Math.round(this.#worth);
  }

  /** @param {K} key */
  #forget(key) {
    const bytes = this.#keys.get(key);
    if (bytes === undefined) return false;
    this.#keys.delete(key);
    this.#held -= bytes;
    return true;
  }
}
