/**
 * Local sensing: what a program may use while it has no broker. It is conservative, because other programs
 * may sense the same free bytes: it takes a quarter of what is free beyond a reserve, and looks again.
 *
 * @module
 */

import { SECOND } from './clock.js';
import { Domain } from './domain.js';
import { atLeastZero, clamped, NOTHING } from './numbers.js';
import { KernelFile, pairs } from './proc.js';

const MIB = 2 ** 20;
/** A program takes one part in this many of the free memory at a time. */
const PART = 4;
/** The reserve is one part in this many of the capacity, within these bounds. */
const RESERVE_PART = 50;
const RESERVE_MIN = 32 * MIB;
const RESERVE_MAX = 1024 * MIB;
/** The time allowed for paying a debt, ns. */
const PATIENCE = SECOND;
/** How long the last limit of a dead broker holds, ns. The sum of all limits was safe. */
const GRACE = 10 * SECOND;
/** Numbers that change by less than this (bytes) stay as they were. */
const HYSTERESIS = MIB;

/** @typedef {import('./numbers.js').Numbers} Numbers */

/**
 * The numbers that follow from what was sensed. The limit never exceeds `bound`. A debt in `last` keeps its
 * deadline until it is paid.
 *
 * @param {{ capacity: number, room: number, uses: number }} sensed bytes
 * @param {number} bound bytes
 * @param {Numbers} last
 * @param {number} now ns
 * @returns {Numbers}
 */
export function decide({ capacity, room, uses }, bound, last, now) {
  const least = Math.min(RESERVE_MIN, Math.floor(capacity / 8));
  const most = Math.max(RESERVE_MAX, least);
  const reserve = Math.min(Math.max(Math.floor(capacity / RESERVE_PART), least), most);
  const free = atLeastZero(room - reserve);
  const owed = Math.min(atLeastZero(reserve - room), Math.floor(uses / 2));
  const limit = owed > 0 ? uses - owed : uses + Math.floor(free / PART);
  const deadline = owed === 0 ? 0 : last.deadline || now + PATIENCE;
  return {
    limit: clamped(Math.min(limit, bound)),
    available: clamped(uses + free),
    owed,
    deadline,
    uses,
    share: 0,
    level: levelOf(room, reserve, owed > 0 && now > deadline),
    sensed: now,
  };
}

/**
 * @param {number} room
 * @param {number} reserve
 * @param {boolean} isLate
 * @returns {import('./numbers.js').Level}
 */
function levelOf(room, reserve, isLate) {
  if (isLate || room < Math.floor(reserve / 4)) return 'critical';
  return room < reserve ? 'warning' : 'normal';
}

/**
 * Whether a change is too small to tell: under 1 MiB or 1 %, with nothing else changed.
 *
 * @param {Numbers} a
 * @param {Numbers} b
 */
function isClose(a, b) {
  const close = (/** @type {number} */ one, /** @type {number} */ other) =>
    Math.abs(one - other) <= Math.max(HYSTERESIS, other / 100);
  return (
    a.level === b.level &&
    (a.owed === 0) === (b.owed === 0) &&
    close(a.owed, b.owed) &&
    a.deadline === b.deadline &&
    close(a.limit, b.limit) &&
    close(a.available, b.available)
  );
}

/** Senses for one principal. */
export class Local {
  #pid;
  /** @type {Domain | null} */
  #domain = null;
  /** @type {KernelFile | null} */
  #status = null;
  #last = NOTHING;
  /** The dead broker's limit, and until when it holds. @type {{ limit: number, until: number } | null} */
  #bound = null;
  #generation = 0;

  /** @param {number | null} pid the process; null for none */
  constructor(pid) {
    this.#pid = pid;
  }

  /** @param {number | null} pid */
  setPid(pid) {
    if (pid === this.#pid) return;
    this.rest();
    this.#pid = pid;
    this.#last = NOTHING;
  }

  /**
   * Keeps the limit of a lost broker as an upper bound for a while.
   *
   * @param {number} limit bytes; 0 for none
   * @param {number} now ns
   */
  inherit(limit, now) {
    this.#bound = limit > 0 ? { limit, until: now + GRACE } : null;
    this.#last = NOTHING;
  }

  /** Closes the files. The next look opens them again. */
  rest() {
    this.#domain?.close();
    this.#status?.close();
    this.#domain = null;
    this.#status = null;
  }

  /**
   * The present numbers.
   *
   * @param {number} now ns
   * @returns {import('./numbers.js').Reading}
   */
  sense(now) {
    const uses = this.#uses();
    this.#domain ??= new Domain(this.#pid ?? process.pid);
    if (this.#bound !== null && now >= this.#bound.until) this.#bound = null;
    const bound = this.#bound?.limit ?? Number.POSITIVE_INFINITY;
    const fresh = decide({ ...this.#domain.read(), uses }, bound, this.#last, now);
    if (!isClose(fresh, this.#last)) {
      this.#last = fresh;
      this.#generation += 1;
    }
    this.#last = { ...this.#last, uses: fresh.uses, sensed: fresh.sensed };
    return Object.freeze({
      ...this.#last,
      source: 'local',
      heartbeat: now,
      generation: this.#generation,
    });
  }

  /** Milliseconds until the next look. Few while memory is short. */
  get intervalMs() {
    return this.#last.level === 'normal' ? 500 : 100;
  }

  /** Bytes of the process that are not pages of files. */
  #uses() {
    if (this.#pid === null) return 0;
    try {
      this.#status ??= new KernelFile(`/proc/${this.#pid}/status`);
      const status = pairs(this.#status.text());
      return (status.get('RssAnon') ?? 0) + (status.get('RssShmem') ?? 0);
    } catch {
      return this.#pid === process.pid ? residentSize() : 0;
    }
  }
}

/** Resident bytes of this process; 0 if there is no descriptor to read them. */
export function residentSize() {
  try {
    return process.memoryUsage.rss();
  } catch {
    return 0;
  }
}
