/**
 * Makes the heap of V8 follow the limit.
 *
 * V8 fixes the largest size of its old generation when it starts: a later `--max-old-space-size` changes
 * nothing, in either direction. But after each full collection it reads `--heap-growing-percent`, by how much
 * the heap may grow beyond what lived until the next one. That holds at any time (Node 18, 20 and 22), so it
 * is what is steered here. Where the use is too high already, a collection is made at once. So the heap tends
 * to its limit, but nothing holds it there: live data, and what V8 keeps beside, may exceed it.
 *
 * @module
 */

import { constants, PerformanceObserver } from 'node:perf_hooks';
import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { MILLISECOND, now } from './clock.js';
import { collector } from './collect.js';
import { Governor } from './governor.js';
import { Local } from './local.js';
import { atLeastZero } from './numbers.js';

/**
 * Bounds of the growth, percent. With less, a program does little but collect. By itself V8 grows by up to
 * 300 %.
 */
const LEAST_GROWTH = 50;
const MOST_GROWTH = 300;
/** V8 decides by itself. */
const NO_GROWTH = 0;
/** A program has to be able to allocate as much between two collections: the young generation, bytes. */
const GUARD = 16 * 2 ** 20;

/** @typedef {import('./principal.js').Principal} Principal */

/**
 * Begins to follow. Does not keep the process alive.
 *
 * @param {Principal} principal of this process
 * @returns {{ stop: () => void }} `stop`: V8 decides by itself again
 */
export function follow(principal) {
  return new Follow(principal);
}

class Follow {
  #principal;
  #collect = collector();
  #governor = new Governor(now(), 0);
  #local = new Local(process.pid);
  #observer = new PerformanceObserver((list) => this.#note(list.getEntries()));
  /** Bytes of the heap in use at the last look, and all that was allocated as far as that tells. */
  #used = 0;
  #allocated = 0;
  /** After the last full collection, bytes. */
  #live = 0;
  #collections = 0;
  #collectionMs = 0;
  #growth = NO_GROWTH;
  /** @type {NodeJS.Timeout} */
  #timer;

  /** @param {Principal} principal */
  constructor(principal) {
    this.#principal = principal;
    this.#observer.observe({ entryTypes: ['gc'] });
    this.#timer = setTimeout(() => this.#look(), 0).unref();
  }

  stop() {
    clearTimeout(this.#timer);
    this.#observer.disconnect();
    this.#local.rest();
    this.#grow(NO_GROWTH);
  }

  /** @param {import('node:perf_hooks').PerformanceEntry[]} entries collections that ended */
  #note(entries) {
    for (const entry of entries) {
      const { detail } = /** @type {{ detail?: { kind?: number } }} */ (/** @type {unknown} */ (entry));
      if (detail?.kind !== constants.NODE_PERFORMANCE_GC_MAJOR) continue;
      this.#collections += 1;
      this.#collectionMs += entry.duration;
      this.#live = getHeapStatistics().used_heap_size;
    }
  }

  #look() {
    const { limit, owed, uses, source } = this.#principal.read();
    const heap = getHeapStatistics();
    this.#allocated += atLeastZero(heap.used_heap_size - this.#used);
    this.#used = heap.used_heap_size;
    this.#governor.measure(now(), this.#allocated);
    if (limit > 0) {
      const { uses: resident } = this.#local.sense(now());
      const beside = atLeastZero(resident - heap.total_heap_size);
      const live = this.#live || heap.used_heap_size;
      const own = { resident, beside, needs: live, guard: GUARD };
      // Local numbers count this process only.
      const granted = { limit, owed, uses: source === 'local' ? 0 : uses };
      this.#obey(this.#governor.step(now(), granted, own), live, resident);
    }
    const pause = this.#governor.pause(limit > 0, false);
    this.#timer = setTimeout(() => this.#look(), pause / MILLISECOND).unref();
  }

  /**
   * @param {import('./governor.js').Govern} govern
   * @param {number} live bytes
   * @param {number} resident bytes
   */
  #obey({ heapLimit, releaseTo, report }, live, resident) {
    const growth = Math.floor((heapLimit / live - 1) * 100);
    this.#grow(Math.min(Math.max(growth, LEAST_GROWTH), MOST_GROWTH));
    if (releaseTo !== null) {
      const began = now();
      this.#collect();
      const after = this.#local.sense(now()).uses;
      this.#governor.released(began, now(), after);
      this.#principal.released(atLeastZero(resident - after));
    }
    if (report === null) return;
    const [collections, collectionMs] = [this.#collections, this.#collectionMs];
    this.#principal.report({ ...report, live, collections, collectionMs });
  }

  /** @param {number} growth percent */
  #grow(growth) {
    if (growth === this.#growth) return;
    this.#growth = growth;
    setFlagsFromString(`--heap-growing-percent=${growth}`);
  }
}
