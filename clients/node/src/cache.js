/**
 * A cache that sizes itself, on top of `lru-cache`.
 *
 * @module
 */

import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { LRUCache } from 'lru-cache';
import { MILLISECOND, now } from './clock.js';
import { sleep } from './held.js';
import { residentSize } from './local.js';
import { atLeastZero } from './numbers.js';

const MIB = 2 ** 20;
/** A debt is paid in this many steps. */
const STEPS = 4;
/** The kernel has its pages back some milliseconds after a collection. */
const SETTLES_MS = 20;
/**
 * What is still owed after its bytes were dropped is paid again after the first pause, and then after ever
 * longer ones: the memory may come back late, or not at all.
 */
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 30_000;
/** How often demand and floor are reported. */
const REPORT_MS = 1000;
/** A demand that differs by less than one part in this many is not reported. */
const REPORT_PART = 16;
/** Entries that were dropped for want of room count as wanted for this long, and at most so many. */
const MISSED_MS = 60_000;
const MOST_MISSED = 16_384;

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
 * in steps before the deadline. Its sizes are bytes: give `sizeCalculation`, or a `size` to each `set`.
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
  /** The size to which it may grow, and the time of the numbers behind it. */
  #most = 0;
  #shown = -1;
  /** Bytes that were added since. */
  #added = 0;
  /** The demand that was reported last. */
  #demand = 0;
  #isPaying = false;
  #isClosed = false;
  #timer;
  #pay = () => void this.#payDebt();

  /**
   * @param {Principal} principal
   * @param {Partial<LRUCache.Options<K, V, unknown>> & MemoryOptions} [options] those of `lru-cache`; `maxSize` is
   *   the most bytes that it ever holds
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
    const before = this.calculatedSize;
    super.set(key, value, options);
    const added = this.calculatedSize - before;
    this.#missed.delete(key);
    if (added > 0) {
      this.#added += added;
      this.#dropTo(this.#mostNow());
    }
    return this;
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
      // The numbers may not show yet what was added since the last ones.
      this.#most = Math.max(this.calculatedSize - this.#added + room, this.#minSize);
      this.#shown = shown;
      this.#added = 0;
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
      if (!done) this.#missed.set(key, Math.max(1, held - this.calculatedSize));
    }
    return before - this.calculatedSize;
  }

  /** Pays what is owed, until nothing is. */
  async #payDebt() {
    if (this.#isPaying) return;
    this.#isPaying = true;
    try {
      let pause = FIRST_PAUSE_MS;
      while (!this.#isClosed && this.#principal.read().owed > 0) {
        await this.#payOnce();
        if (this.#principal.read().owed === 0) break;
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
   */
  async #payOnce() {
    const began = now();
    const { owed: debt, deadline } = this.#principal.read();
    const pauseMs = atLeastZero(deadline - began) / MILLISECOND / 2 / STEPS;
    let dropped = 0;
    await this.#free(() => {});
    for (let left = STEPS; left > 0; left--) {
      const { owed } = this.#principal.read();
      const step = Math.ceil(Math.min(owed, debt - dropped) / left);
      if (this.#isClosed || step <= 0) break;
      await this.#free(() => {
        dropped += this.#dropTo(Math.max(this.calculatedSize - step, this.#minSize));
      });
      await sleep(pauseMs - SETTLES_MS);
    }
    this.#principal.report({ reactionMs: (now() - began) / MILLISECOND });
  }

  /**
   * Drops and collects, and reports the bytes that the process gave back by that.
   *
   * @param {() => void} drop
   */
  async #free(drop) {
    const before = residentSize();
    drop();
    this.#most = Math.min(this.#most, this.calculatedSize);
    this.#collect?.();
    await sleep(SETTLES_MS);
    this.#principal.released(atLeastZero(before - residentSize()));
  }

  /** Reports demand and floor: what it would hold if it kept all, and what it keeps whatever is owed. */
  #look() {
    const { uses, owed } = this.#principal.read();
    if (owed > 0) this.#pay();
    this.#missed.purgeStale();
    const beside = atLeastZero(uses - this.calculatedSize);
    const wanted = this.calculatedSize + this.#missed.calculatedSize;
    const demand = beside + Math.min(this.maxSize, wanted + Math.ceil(wanted / 8) + MIB);
    if (Math.abs(demand - this.#demand) <= this.#demand / REPORT_PART) return;
    this.#demand = demand;
    this.#principal.report({ demand, floor: beside + this.#minSize });
  }
}

/**
 * A full collection of V8, also where the program was not started with `--expose-gc`.
 *
 * @returns {() => void}
 */
function collector() {
  if (globalThis.gc !== undefined) return globalThis.gc;
  setFlagsFromString('--expose-gc');
  return runInNewContext('gc');
}
