/**
 * The rule of what a limit means inside a program: how large the heap of one process may be, when it gives
 * memory back and down to what, how fast the program allocates, and when it reports. Pure: no clock, no I/O.
 *
 * A limit is for a process and its *family* together: its descendants, unless they are principals of their
 * own. The broker counts all of them; a process knows only its own use. So the family's use is the
 * difference. The broker's count is older, and differs while this process grows or shrinks, or forks a child
 * that is gone a moment later. Therefore the least difference of the last looks is taken.
 *
 * Sizes are bytes, times are nanoseconds of `now`.
 *
 * @module
 */

import { MILLISECOND, SECOND } from './clock.js';
import { atLeastZero } from './numbers.js';

const MIB = 2 ** 20;
/** Most bytes left unused below a limit. */
const MOST_UNUSED = 24 * MIB;
/** How far a release goes at most below the threshold: what is released beyond is filled again at once. */
const MOST_RELEASED = 32 * MIB;
/** Looks over which the memory beside the heap is taken as the most, and the family's as the least. */
const WINDOW = 8;
/** Time between two reports. */
export const REPORT_EVERY = SECOND;
/** The allocation rate is smoothed over this time. */
const SMOOTH_OVER = SECOND;
/** Shortest time over which the allocation rate is measured. */
const MEASURE_OVER = 20 * MILLISECOND;
/** After a release, the next waits for this many times what it took. */
const RESTS = 4;
/**
 * While memory is owed, a release that did not help is repeated after the first pause, and then after ever
 * longer ones: live data that exceed the limit are collected in vain.
 */
const FIRST_PAUSE = 500 * MILLISECOND;
const LONGEST_PAUSE = 30 * SECOND;
/** A limit that fell by more than one part in this many since the last release is reason for another. */
const FELL_PART = 32;
/** While nothing is owed, the use may exceed the threshold by one part in this many of the rest above it. */
const TOLERATED_PART = 4;

/**
 * @typedef {object} Granted what the broker says
 * @property {number} limit
 * @property {number} owed
 * @property {number} uses 0 if unknown
 *
 * @typedef {object} Own the memory of this process, as it measures it
 * @property {number} resident resident anonymous memory
 * @property {number} beside the part of it that is not the heap
 * @property {number} needs the smallest heap with which the program can go on
 * @property {number} guard what the program has to be able to allocate between two collections
 *
 * @typedef {object} Govern the result of a look
 * @property {number} family use of the rest of the family
 * @property {number} processLimit this process may use as much before it collects
 * @property {number} heapLimit the part of that for its heap
 * @property {number | null} releaseTo the use is too high: the size to which the heap is to shrink now
 * @property {boolean} mayRelease whether a release would help, as far as the last one tells
 * @property {import('./messages.js').Known | null} report one that is due; who sends it adds what the
 *   collector knows
 */

/**
 * Use up to which a heap may grow: 15/16 of the limit, and closer to a large limit.
 *
 * @param {number} limit
 */
export function threshold(limit) {
  return limit - Math.min(Math.floor(limit / 16), MOST_UNUSED);
}

/**
 * Use that a release goes down to: 7/8 of the threshold, and closer to a large threshold.
 *
 * @param {number} limit
 */
export function lowWater(limit) {
  const most = threshold(limit);
  return most - Math.min(Math.floor(most / 8), MOST_RELEASED);
}

/** Governs one process. */
export class Governor {
  /** Memory beside the heap, at the last looks. */
  #beside = new Window();
  /** The broker's count less this process's use, at the last looks. */
  #family = new Window();
  #rate;
  /** The last release, so that one that did not help is not repeated in vain. All 0 before the first. */
  #last = { at: 0, took: 0, limit: 0, excess: 0, reached: false, pause: 0 };
  /** At the last look: this process's use; the part above the threshold, or owed; the debt; the limit. */
  #resident = 0;
  #excess = 0;
  #owed = 0;
  #limit = 0;
  /** The last look allowed a release only because of the time since the one before. */
  #isAgain = false;
  #reported = 0;

  /**
   * For a process that has allocated `allocated` bytes until `now`.
   *
   * @param {number} now
   * @param {number} allocated
   */
  constructor(now, allocated) {
    this.#rate = new Rate(now, allocated);
  }

  /**
   * Measures how fast the program allocates. Called before {@link Governor.step}, and also while there are no
   * numbers.
   *
   * @param {number} now
   * @param {number} allocated bytes that it has ever allocated
   * @returns {number} bytes a second
   */
  measure(now, allocated) {
    this.#rate.look(now, allocated);
    return this.#rate.smoothed;
  }

  /**
   * One look at the broker's numbers and at this process.
   *
   * @param {number} now
   * @param {Granted} granted
   * @param {Own} own
   * @returns {Govern}
   */
  step(now, { limit, owed, uses }, own) {
    this.#beside.push(own.beside);
    // A broker that has not counted yet, or is away, knows of no family.
    if (uses > 0) this.#family.push(atLeastZero(uses - own.resident));
    const [beside, family] = [this.#beside.most(), this.#family.least()];
    const usable = threshold(limit);
    const above = atLeastZero(own.resident + family - usable);
    [this.#resident, this.#limit, this.#owed] = [own.resident, limit, owed];
    this.#excess = Math.max(above, owed);
    const isTooMuch = isOver(above, owed > 0, limit - usable);
    // A release may take effect later, where another thread collects.
    this.#last.reached ||= !isTooMuch && owed === 0;
    const mayRelease = this.#mayRelease(now, owed > 0, own.guard);
    const isAlone = this.#paysAlone(now);
    const left = (/** @type {number} */ most) =>
      isAlone ? atLeastZero(most - family) : partOfFamily(most, own.resident, family);
    const processLimit = left(usable);
    return {
      family,
      processLimit,
      heapLimit: atLeastZero(processLimit - beside),
      releaseTo: isTooMuch && mayRelease ? atLeastZero(left(lowWater(limit)) - beside) : null,
      mayRelease,
      report: this.#report(now, beside + family + own.needs + (limit - usable)),
    };
  }

  /**
   * A release ended.
   *
   * @param {number} began
   * @param {number} ended
   * @param {number} resident what this process uses after it
   */
  released(began, ended, resident) {
    const usable = threshold(this.#limit);
    const above = atLeastZero(resident + this.#family.least() - usable);
    const owed = atLeastZero(this.#owed - atLeastZero(this.#resident - resident));
    this.#last = {
      at: ended,
      took: atLeastZero(ended - began),
      limit: this.#limit,
      excess: Math.max(above, owed),
      reached: owed === 0 && !isOver(above, false, this.#limit - usable),
      pause: this.#isAgain ? Math.min(this.#last.pause * 2, LONGEST_PAUSE) : FIRST_PAUSE,
    };
  }

  /**
   * Time until the next look: shorter while the program allocates, longer where news end the wait, and long
   * while there are no numbers.
   *
   * @param {boolean} hasNumbers
   * @param {boolean} isHeard
   * @returns {number} ns
   */
  pause(hasNumbers, isHeard) {
    if (hasNumbers && this.#rate.smoothed > 0) return 50 * MILLISECOND;
    if (!isHeard) return 100 * MILLISECOND;
    return (hasNumbers ? 500 : 1000) * MILLISECOND;
  }

  /**
   * @param {number} now
   * @param {boolean} owes
   * @param {number} guard
   */
  #mayRelease(now, owes, guard) {
    const last = this.#last;
    const since = atLeastZero(now - last.at);
    const isLower = this.#limit < last.limit - Math.floor(last.limit / FELL_PART);
    const hasGrown = this.#excess > last.excess + guard * 2;
    const helps = isLower || (since >= last.took * RESTS && (last.reached || hasGrown));
    this.#isAgain = !helps && owes && since >= Math.max(last.pause, last.took * RESTS);
    return last.at === 0 || helps || this.#isAgain;
  }

  /**
   * The rest of the family has had its time to give its part, and did not: it cannot.
   *
   * @param {number} now
   */
  #paysAlone(now) {
    const { at, reached } = this.#last;
    return at > 0 && !reached && now - at >= FIRST_PAUSE;
  }

  /**
   * @param {number} now
   * @param {number} floor
   * @returns {import('./messages.js').Known | null}
   */
  #report(now, floor) {
    if (now - this.#reported < REPORT_EVERY) return null;
    this.#reported = now;
    const rate = this.#rate.known();
    return {
      ...(rate === null ? {} : { allocationRate: rate }),
      floor,
      reactionMs: Math.floor(this.#last.took / MILLISECOND),
    };
  }
}

/**
 * Whether `above` bytes above the threshold are too many, below a limit that leaves `unused` bytes above it.
 *
 * @param {number} above
 * @param {boolean} owes
 * @param {number} unused
 */
function isOver(above, owes, unused) {
  return above > (owes ? 0 : Math.floor(unused / TOLERATED_PART));
}

/**
 * The part that is left to one process where the family can give memory back as well: while all use more than
 * `most`, each member gives the same part of what it uses. If each gave the whole excess, they would give it
 * many times.
 *
 * @param {number} most
 * @param {number} resident
 * @param {number} family
 */
function partOfFamily(most, resident, family) {
  const all = resident + family;
  if (all <= most) return atLeastZero(most - family);
  return atLeastZero(resident - product(all - most, resident, all));
}

/**
 * `a * b / c`, rounded down. The product may exceed what a number holds exactly.
 *
 * @param {number} a
 * @param {number} b
 * @param {number} c not 0
 */
function product(a, b, c) {
  return Number((whole(a) * whole(b)) / whole(c));
}

/** @param {number} value */
function whole(value) {
  return BigInt(Math.floor(value));
}

/** The values of the last looks. */
class Window {
  /** @type {number[]} */
  #values = new Array(WINDOW).fill(0);
  #looks = 0;

  /** @param {number} value */
  push(value) {
    this.#values[this.#looks++ % WINDOW] = value;
  }

  most() {
    return Math.max(...this.#values);
  }

  /** Nothing until there were enough looks. */
  least() {
    return Math.min(...this.#values);
  }
}

/** How fast the program allocates. */
class Rate {
  /** Bytes a second. */
  smoothed = 0;
  #started;
  #looked;
  #allocated;

  /**
   * @param {number} now
   * @param {number} allocated
   */
  constructor(now, allocated) {
    this.#started = now;
    this.#looked = now;
    this.#allocated = allocated;
  }

  /**
   * Mixes in the rate since the last look. While the program starts, all looks count alike.
   *
   * @param {number} now
   * @param {number} allocated
   */
  look(now, allocated) {
    const passed = now - this.#looked;
    if (passed < MEASURE_OVER) return;
    const fresh = product(atLeastZero(allocated - this.#allocated), SECOND, passed);
    const over = whole(Math.min(now - this.#started, SMOOTH_OVER));
    const part = whole(Math.min(passed, Number(over)));
    this.smoothed = Number((whole(this.smoothed) * (over - part) + whole(fresh) * part) / over);
    this.#looked = now;
    this.#allocated = allocated;
  }

  /** Null in the first second: a program allocates differently while it starts. */
  known() {
    return this.#looked - this.#started >= SMOOTH_OVER ? this.smoothed : null;
  }
}
