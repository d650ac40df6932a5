/**
 * The numbers of a principal.
 *
 * All are of type `number`, not `bigint`: sizes up to 2^53 - 1 bytes (8 PiB) are exact, no machine has more,
 * and a program can compute with them and give them to `Buffer.alloc` as they are. Larger sizes, which only a
 * broker without a bound would tell, become 2^53 - 1. Times are not clamped, see `now`.
 *
 * @module
 */

/**
 * How short memory is, for programs that know levels only. `normal`: within its limit. `warning`: at its
 * limit, or it owes and has time left. `critical`: it owes, and the deadline is near or past.
 *
 * @typedef {'normal' | 'warning' | 'critical'} Level
 */

/**
 * Where numbers come from. `broker`: a broker that is alive. `stale`: the last numbers of a broker that gave
 * no sign of life lately. `local`: local sensing, because there is no broker.
 *
 * @typedef {'broker' | 'stale' | 'local'} Source
 */

/**
 * @typedef {object} Numbers
 * @property {number} limit bytes that may be used now
 * @property {number} available bytes that could be had if the program asked
 * @property {number} owed bytes that must be given back; 0 when none
 * @property {number} deadline by when (ns of `now`); 0 when nothing is owed
 * @property {number} uses bytes that are accounted to it
 * @property {number} share bytes of its guaranteed weighted share; 0 where no broker runs
 * @property {Level} level
 * @property {number} sensed when `uses` was read (ns of `now`); 0 from a broker that does not tell
 */

/**
 * Numbers of one moment.
 *
 * @typedef {Readonly<Numbers & {
 *   source: Source,
 *   heartbeat: number,
 *   generation: number,
 * }>} Reading `heartbeat`: the source's last sign of life (ns of `now`). `generation`: counts changes of the
 *   numbers; starts again when the source changes.
 */

/** @type {readonly Level[]} */
export const LEVELS = ['normal', 'warning', 'critical'];

/** @type {Readonly<Numbers>} */
export const NOTHING = {
  limit: 0,
  available: 0,
  owed: 0,
  deadline: 0,
  uses: 0,
  share: 0,
  level: 'normal',
  sensed: 0,
};

/**
 * A size that a number can hold.
 *
 * @param {number} bytes not negative
 */
export function clamped(bytes) {
  return Math.min(bytes, Number.MAX_SAFE_INTEGER);
}

/**
 * A size or count that a program gave: rounded down, and clamped.
 *
 * @param {string} name for the message
 * @param {unknown} value
 * @throws {RangeError} when it is no number, or negative
 */
export function amount(name, value) {
  if (typeof value !== 'number' || !(value >= 0)) {
    throw new RangeError(`${name} is ${String(value)}: give a number that is 0 or more`);
  }
  return Math.floor(clamped(value));
}

/**
 * A difference that is never negative.
 *
 * @param {number} value
 */
export function atLeastZero(value) {
  return Math.max(0, value);
}
