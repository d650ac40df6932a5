/**
 * Memory that the program gave back and that the numbers do not show yet. The broker reads a program's
 * memory some milliseconds after it was freed. Without this, a debt that was paid would be told again, and
 * paid twice.
 *
 * @module
 */

/** @typedef {import('./numbers.js').Reading} Reading */

/** Releases that are remembered one by one; further ones join the last. */
const MOST = 16;

export class PendingReleases {
  /** Oldest first. @type {{ at: number, bytes: number }[]} */
  #releases = [];

  /**
   * Notes that bytes were given back before `at`. Forgets the releases that `shown` includes.
   *
   * @param {number} bytes
   * @param {number} at ns
   * @param {Reading} shown
   */
  add(bytes, at, shown) {
    const included = asOf(shown);
    this.#releases = this.#releases.filter((release) => release.at > included);
    const last = this.#releases.at(-1);
    if (last !== undefined && this.#releases.length === MOST) {
      last.at = at;
      last.bytes += bytes;
    } else {
      this.#releases.push({ at, bytes });
    }
  }

  /**
   * The reading as it will be once the broker has seen what was given back.
   *
   * @param {Reading} reading
   * @returns {Reading}
   */
  settle(reading) {
    const shown = asOf(reading);
    let paid = 0;
    for (const { at, bytes } of this.#releases) {
      if (at > shown) paid += bytes;
    }
    if (paid === 0) return reading;
    const uses = Math.max(0, reading.uses - paid);
    const owed = Math.max(0, reading.owed - paid);
    const isPaid = reading.owed > 0 && owed === 0;
    return { ...reading, uses, owed, ...(isPaid ? { deadline: 0, level: 'normal' } : {}) };
  }
}

/**
 * The time (ns) up to which a reading shows what was given back. An older broker does not say when it read;
 * then the time of its last sign of life stands for that.
 *
 * @param {Reading} reading
 */
function asOf(reading) {
  return reading.sensed === 0 && reading.source !== 'local' ? reading.heartbeat : reading.sensed;
}
