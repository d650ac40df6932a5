/**
 * Messages that wait to be sent to the broker.
 *
 * @module
 */

import { clamped } from './numbers.js';

/** @typedef {import('./messages.js').Known} Known */

/** Reports are merged and released bytes summed, so it never grows. */
export class Outbox {
  /** All reports so far, merged: a new broker gets all of it. @type {Known} */
  #known = {};
  /** Whether the present broker lacks some of it. */
  #isNew = false;
  #released = 0;

  /** @param {Known} known absent fields keep their last value */
  addReport(known) {
    this.#known = { ...this.#known, ...known };
    this.#isNew = true;
  }

  /** @param {number} bytes */
  addReleased(bytes) {
    this.#released = clamped(this.#released + bytes);
  }

  /** Prepares for a new broker: it needs the whole report again, but released bytes are old news. */
  startAnew() {
    this.#isNew ||= Object.keys(this.#known).length > 0;
    this.#released = 0;
  }

  /**
   * Takes what is to be sent; null when there is nothing.
   *
   * @returns {{ released: number, known: Known | null } | null}
   */
  take() {
    if (this.#released === 0 && !this.#isNew) return null;
    const taken = { released: this.#released, known: this.#isNew ? this.#known : null };
    this.#released = 0;
    this.#isNew = false;
    return taken;
  }
}
