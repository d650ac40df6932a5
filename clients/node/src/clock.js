/**
 * The clock of all times in this package: `CLOCK_MONOTONIC`, which the broker uses too.
 *
 * @module
 */

export const MILLISECOND = 1e6;
export const SECOND = 1e9;

/**
 * Nanoseconds of `CLOCK_MONOTONIC`. A number holds them exactly for 104 days after the start of the machine,
 * and to some tens of nanoseconds later, so nothing here needs a bigint.
 *
 * @returns {number}
 */
export function now() {
  return Number(process.hrtime.bigint());
}
