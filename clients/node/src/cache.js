/**
 * A cache that sizes itself, on top of `lru-cache`.
 *
 * @module
 */

import { LRUCache } from 'lru-cache';
import { MILLISECOND, now } from './clock.js';
import { collector } from './collect.js';
import { Ghost } from './ghost.js';
import { sleep } from './held.js';
import { residentSize } from './local.js';
import { atLeastZero } from './numbers.js';

const MIB = 2 ** 20;
/** A debt is paid in this many steps. */
const STEPS = 4;
/** The kernel has its pages back some milliseconds after a collection. */
const SETTLES_MS = 20;
/**
 * Where the process did not become smaller by what was dropped, the rest of a debt is paid after the first
 * pause, and then after ever longer ones: the allocator keeps the memory, and dropping more is mostly in
 * vain.
 */
const FIRST_PAUSE_MS = 2000;
const LONGEST_PAUSE_MS = 30_000;
/** How often demand and floor are reported. */
const REPORT_MS = 1000;
/** A demand that differs by less than one part in this many is not reported. */
const REPORT_PART = 16;
/** Entries that were dropped for want of room count as wanted for this long, and at most so many. */
const MISSED_MS = 60_000;
const MOST_MISSED = 16_384;
/** So many values may be on their way at a time, for the time that they take to count. */
const MOST_LOADS = 4096;
/** A value that is set later after its miss was not made because of that, ns. */
const LONGEST_LOAD = 60e9;

/**
 * @typedef {import('./principal.js').Principal} Principal
 *
 * @typedef {object} MemoryOptions
 * @property {number} [minSize] bytes that it keeps whatever is owed; 0 if absent
 * @property {(() => void) | null} [collect] frees dropped entries at once; null if V8 collects when it likes.
 *   If absent, a full collection of V8
 */

/**
 * An {@link LRUCache} that grows only while its program uses less than its limit, and gives back what is owed
 * in steps before the deadline. It reports what more memory would be worth to it: a miss (by `get` or `fetch`)
 * of an entry that was dropped lately costs the time until it is set. Its sizes are bytes: give `sizeCalculation`, or a `size` to each `set`.
 *
 * @template {{}} K
 * @template {{}} V
 * @extends {LRUCache<K, V>}
 */
export class MemoryCache extends LRUCache {
  #principal;
  #minSize;
  #collect;
  /** Entries that were dropped for want of room, as their sizes. @type {LRUCache<K, number>} */
  #missed = new LRUCache({
    max: MOST_MISSED,
    maxSize: Number.MAX_SAFE_INTEGER,
    ttl: MISSED_MS,
    sizeCalculation: (/** @type {number} */ size) => size,
  });
  /** Entries that were dropped lately. @type {Ghost<K>} */
  #ghost = new Ghost(now());
  /** When those were asked for in vain, ns. @type {Map<K, number>} */
  #loads = new Map();
  /** The worth that was reported last. @type {number | null} */
  #worth = null;
  /** The size to which it may grow, the time of the numbers behind that, and the size that it had then. */
  #most = 0;
  #shown = -1;
  #size = 0;
  /** The demand that was reported last. */
  #demand = 0;
  #isPaying = false;
  #isClosed = false;
  #timer;
  #pay = () => void this.#payDebt();

  /**
   * @param {Principal} principal
   * @param {Partial<LRUCache.Options<K, V, unknown>> & MemoryOptions} [options] those of `lru-cache`;
   *   `maxSize` is the most bytes that it ever holds
   */
  constructor(principal, { minSize = 0, collect, ...options } = {}) {
    super(/** @type {any} */ ({ maxSize: Number.MAX_SAFE_INTEGER, ...options }));
    this.#principal = principal;
    this.#minSize = minSize;
    this.#collect = collect === undefined ? collector() : collect;
    this.#timer = setInterval(() => this.#look(), REPORT_MS).unref();
    principal.on('owed', this.#pay);
    this.#look();
  }

  /**
   * Adds an entry. If the cache may not grow, the oldest entries make room for it.
   *
   * @override
   * @param {K} key
   * @param {V | undefined} value
   * @param {LRUCache.SetOptions<K, V, unknown>} [options]
   */
  set(key, value, options) {
    if (value !== undefined && !isOnItsWay(value)) this.#endLoad(key);
    const [before, most] = [this.calculatedSize, this.#mostNow()];
    super.set(key, value, options);
    this.#missed.delete(key);
    if (this.calculatedSize > before) this.#dropTo(most);
    return this;
  }

  /**
   * The value of an entry.
   *
   * @override
   * @param {K} key
   * @param {LRUCache.GetOptions<K, V, unknown>} [options]
   */
  get(key, options) {
    const value = super.get(key, options);
    if (value === undefined) this.#beginLoad(key);
    return value;
  }

  /**
   * The value of an entry, made by `fetchMethod` if need be.
   *
   * @override
   * @param {K} key
   * @param {any} [options] as in `lru-cache`
   * @returns {Promise<V | undefined>}
   */
  fetch(key, options) {
    if (!this.has(key) && !this.#loads.has(key)) this.#beginLoad(key);
    return super.fetch(key, options);
  }

  /** Stops following the limit. The entries stay. */
  close() {
    this.#isClosed = true;
    clearInterval(this.#timer);
    this.#principal.off('owed', this.#pay);
  }

  /** The size to which it may grow now, bytes. */
  #mostNow() {
    const { limit, uses, owed, sensed, heartbeat } = this.#principal.read();
    const shown = sensed || heartbeat;
    if (shown !== this.#shown) {
      const room = owed > 0 ? 0 : atLeastZero(limit - uses);
      // The numbers may not show yet by what it grew since the last ones.
      this.#most = Math.max(Math.min(this.calculatedSize, this.#size) + room, this.#minSize);
      this.#shown = shown;
      this.#size = this.calculatedSize;
    }
    return this.#most;
  }

  /**
   * Drops the oldest entries.
   *
   * @param {number} size bytes that are left
   * @returns {number} bytes that were dropped
   */
  #dropTo(size) {
    const before = this.calculatedSize;
    while (this.size > 0 && this.calculatedSize > size) {
      const { value: key, done } = this.rkeys().next();
      const held = this.calculatedSize;
      this.pop();
      if (done) continue;
      const bytes = Math.max(1, held - this.calculatedSize);
      this.#missed.set(key, bytes);
      this.#ghost.evicted(key, bytes, this.calculatedSize);
    }
    return before - this.calculatedSize;
  }

  /** @param {K} key that was asked for in vain */
  #beginLoad(key) {
    if (!this.#ghost.has(key)) return;
    this.#loads.set(key, now());
    for (const oldest of this.#loads.keys()) {
      if (this.#loads.size <= MOST_LOADS) break;
      this.#loads.delete(oldest);
    }
  }

  /** @param {K} key whose value is there now */
  #endLoad(key) {
    const took = now() - (this.#loads.get(key) ?? Number.NEGATIVE_INFINITY);
    if (this.#loads.delete(key) && took <= LONGEST_LOAD) this.#ghost.missed(key, took);
  }

  /** Pays what is owed, until nothing is. */
  async #payDebt() {
    if (this.#isPaying) return;
    this.#isPaying = true;
    try {
      let pause = FIRST_PAUSE_MS;
      while (!this.#isClosed && this.#principal.read().owed > 0) {
        if (await this.#payOnce()) continue;
        await sleep(pause);
        pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
      }
    } finally {
      this.#isPaying = false;
    }
  }

  /**
   * Drops as many bytes as are owed, in steps until half of the time is over. The first step only collects,
   * because what the program dropped before may be enough.
   *
   * @returns {Promise<boolean>} whether the process became smaller by most of that
   */
  async #payOnce() {
    const began = now();
    const { owed: debt, deadline } = this.#principal.read();
    const pauseMs = atLeastZero(deadline - began) / MILLISECOND / 2 / STEPS;
    let dropped = 0;
    let freed = await this.#free(() => {});
    for (let left = STEPS; left > 0; left--) {
      const { owed } = this.#principal.read();
      const step = Math.ceil(Math.min(owed, debt - dropped) / left);
      if (this.#isClosed || step <= 0) break;
      freed += await this.#free(() => {
        dropped += this.#dropTo(Math.max(this.calculatedSize - step, this.#minSize));
      });
      await sleep(pauseMs - SETTLES_MS);
    }
    this.#principal.report({ reactionMs: (now() - began) / MILLISECOND });
    return freed > 0 && freed >= dropped / 2;
  }

  /**
   * Drops and collects, and reports the bytes that the process gave back by that.
   *
   * @param {() => void} drop
   * @returns {Promise<number>} these bytes
   */
  async #free(drop) {
    const before = residentSize();
    drop();
    this.#most = Math.min(this.#most, this.calculatedSize);
    this.#collect?.();
    await sleep(SETTLES_MS);
    const freed = atLeastZero(before - residentSize());
    this.#principal.released(freed);
    return freed;
  }

  /**
   * Reports demand and floor: what it would hold if it kept all, and what it keeps whatever is owed; and what
   * more memory would be worth.
   */
  #look() {
    const { uses, owed } = this.#principal.read();
    if (owed > 0) this.#pay();
    this.#missed.purgeStale();
    const beside = atLeastZero(uses - this.calculatedSize);
    const wanted = this.calculatedSize + this.#missed.calculatedSize;
    const demand = beside + Math.min(this.maxSize, wanted + Math.ceil(wanted / 8) + MIB);
    const worth = this.#ghost.worth(now());
    if (worth !== null && worth !== this.#worth) {
      this.#worth = worth;
      this.#principal.report({ worth });
    }
    if (Math.abs(demand - this.#demand) <= this.#demand / REPORT_PART) return;
    this.#demand = demand;
    this.#principal.report({ demand, floor: beside + this.#minSize });
  }
}

/**
 * Whether it is what `lru-cache` keeps in the place of a value while that is fetched.
 *
 * @param {unknown} value
 */
function isOnItsWay(value) {
  return value instanceof Promise && '__staleWhileFetching' in value;
}
