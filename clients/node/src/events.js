/**
 * Events: which one follows from two states, and the queues of those who wait for them.
 *
 * @module
 */

import { setTimeoutHeld } from './held.js';

/**
 * @typedef {import('./numbers.js').Reading} Reading
 *
 * @typedef {'owed' | 'relief' | 'changed' | 'brokerLost' | 'joined'} EventType `owed`: bytes are to be given
 *   back before the deadline; the debt is new, larger, or has another deadline. `relief`: nothing is owed any
 *   more, or the level fell. `changed`: other numbers changed, mostly the limit. `brokerLost`: the broker is
 *   gone, the numbers are local now. `joined`: a broker is (back) there.
 *
 * @typedef {{ type: EventType, reading: Reading }} PlimsollEvent
 *
 * @typedef {object} State that was told to somebody, or is to be told
 * @property {Reading} reading
 * @property {boolean} joined whether there is a broker
 * @property {number} joins counts joins, so that a broker that died and came back unseen is still told
 */

/**
 * The event that follows if `before` was told last; null if nothing that matters has changed.
 *
 * @param {State} before
 * @param {State} state
 * @returns {EventType | null}
 */
export function newsSince(before, state) {
  const [then, now] = [before.reading, state.reading];
  if (state.joined && (!before.joined || state.joins !== before.joins)) return 'joined';
  if (before.joined && !state.joined) return 'brokerLost';
  if (now.owed > then.owed || (now.owed > 0 && now.deadline !== then.deadline)) return 'owed';
  if ((then.owed > 0 && now.owed === 0) || rank(now) < rank(then)) return 'relief';
  const isSame =
    now.limit === then.limit &&
    now.available === then.available &&
    now.owed === then.owed &&
    now.level === then.level;
  return isSame ? null : 'changed';
}

/** @param {Reading} reading */
function rank({ level }) {
  return level === 'normal' ? 0 : level === 'warning' ? 1 : 2;
}

/**
 * Follows the states for one receiver. Changes that come faster than it takes them are merged: the last
 * numbers are always told.
 */
export class Follower {
  /** @type {State} */
  #told;

  /** @param {State} told the state that the receiver knows */
  constructor(told) {
    this.#told = told;
  }

  /**
   * The next event, if there is one. Small changes are taken over without an event.
   *
   * @param {State} state the present one
   * @returns {PlimsollEvent | null}
   */
  take(state) {
    const type = newsSince(this.#told, state);
    this.#told = state;
    return type && { type, reading: state.reading };
  }
}

/**
 * Those who wait for the events of one follower. Each event goes to one of them.
 *
 * @implements {AsyncIterableIterator<PlimsollEvent>}
 */
export class EventQueue {
  #follower;
  #state;
  #onClose;
  /** @type {((event: PlimsollEvent | null) => void)[]} */
  #waiting = [];
  #isClosed = false;

  /**
   * @param {State} told the state that the receiver knows
   * @param {() => State} state the present one
   * @param {(queue: EventQueue) => void} onClose
   */
  constructor(told, state, onClose) {
    this.#follower = new Follower(told);
    this.#state = state;
    this.#onClose = onClose;
  }

  /** Hands news to one who waits. */
  notify() {
    if (this.#waiting.length === 0) return;
    const event = this.#follower.take(this.#state());
    if (event !== null) this.#waiting.shift()?.(event);
  }

  /**
   * The next event; null if none came in time, or the queue was closed.
   *
   * @param {number} timeoutMs
   * @returns {Promise<PlimsollEvent | null>}
   */
  wait(timeoutMs) {
    const event = this.#isClosed ? null : this.#follower.take(this.#state());
    if (event !== null || this.#isClosed) return Promise.resolve(event);
    return new Promise((resolve) => {
      /** @param {PlimsollEvent | null} event */
      const done = (event) => {
        clearTimeout(timer);
        resolve(event);
      };
      const timer = setTimeoutHeld(() => {
        this.#waiting.splice(this.#waiting.indexOf(done), 1);
        resolve(null);
      }, timeoutMs);
      this.#waiting.push(done);
    });
  }

  /** @returns {Promise<IteratorResult<PlimsollEvent>>} */
  async next() {
    const event = this.#isClosed ? null : this.#follower.take(this.#state());
    if (event !== null) return { value: event, done: false };
    if (this.#isClosed) return { value: undefined, done: true };
    return new Promise((resolve) => {
      this.#waiting.push((next) => {
        resolve(next === null ? { value: undefined, done: true } : { value: next, done: false });
      });
    });
  }

  /** @returns {Promise<IteratorResult<PlimsollEvent>>} */
  async return() {
    this.close();
    return { value: undefined, done: true };
  }

  /** Ends it; those who wait get nothing. */
  close() {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const done of this.#waiting.splice(0)) done(null);
    this.#onClose(this);
  }

  [Symbol.asyncIterator]() {
    return this;
  }
}
