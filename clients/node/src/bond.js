/**
 * A principal at a broker: its connections, its page, and the last numbers.
 *
 * @module
 */

import { now } from './clock.js';
import { PlimsollError } from './errors.js';
import { reportParameters } from './messages.js';
import { isStale, PageFile, STALE_AFTER } from './page.js';

/**
 * @typedef {import('./numbers.js').Reading} Reading
 * @typedef {import('./messages.js').Changed} Changed
 */

export class Bond {
  /** Its number at the broker. */
  id;
  /** The connection for calls, with which the principal ends. */
  control;
  /** The connection that tells of changes. */
  stream;
  /** The last change that the broker told of. @type {Changed} */
  last;
  /** Whether the broker is not known to be older than the field `worth` of a report. */
  #takesWorth = true;
  #path;
  /** Its page; null where that is of no use. @type {PageFile | null} */
  #page = null;
  /** The last numbers of the page. @type {object | null} */
  #shown = null;
  /** @type {Reading} */
  #reading;
  /** When the broker last gave a sign of life other than on the page, ns. */
  #heard = now();
  /** The page grew old, and the broker was asked whether it lives. */
  #isDoubted = false;

  /**
   * @param {import('./join.js').Joined} joined
   * @param {Changed} last
   */
  constructor({ id, page, control, stream }, last) {
    this.id = id;
    this.#path = page;
    this.control = control;
    this.stream = stream;
    this.last = last;
    this.#reading = this.told();
  }

  /** @param {Changed} changed */
  hear(changed) {
    this.last = changed;
    this.#heard = now();
  }

  /**
   * The numbers that the broker told last.
   *
   * @returns {Reading}
   */
  told() {
    const { numbers, generation } = this.last;
    return Object.freeze({ ...numbers, source: 'broker', heartbeat: this.#heard, generation });
  }

  /**
   * The numbers on the page, by one system call; those that the broker told last if the page shows none.
   *
   * @returns {Reading}
   */
  read() {
    const page = this.#page?.read() ?? null;
    if (page === null) return this.told();
    const source = this.#isDoubted || isStale(page, now()) ? 'stale' : 'broker';
    if (this.#shown !== page || this.#reading.source !== source) {
      const { id: _, ...numbers } = page;
      this.#shown = page;
      this.#reading = Object.freeze({ ...numbers, source });
    }
    return this.#reading;
  }

  /**
   * Opens the page, if it is not open or was truncated.
   *
   * @throws {import('./errors.js').PlimsollError} `PLIMSOLL_PAGE`; then there is none
   */
  openPage() {
    this.leavePage();
    this.#page = new PageFile(this.#path, this.id);
  }

  /** Takes the numbers from the connection from now on. */
  leavePage() {
    this.#page?.close();
    this.#page = null;
  }

  /** Whether the page was truncated or overwritten. */
  get hasLostPage() {
    return this.#page?.isGone() ?? false;
  }

  /** Whether the broker gave a sign of life lately. */
  get isFresh() {
    const page = this.#page?.read() ?? null;
    return page === null ? now() - this.#heard < STALE_AFTER / 3 : !isStale(page, now());
  }

  /**
   * Asks the broker whether it lives. A broker that hangs keeps its connections, but its page grows old. If
   * it answers, only the page is dead, and the numbers come from the connection from now on.
   *
   * @throws {import('./errors.js').PlimsollError} it does not
   */
  async ask() {
    this.#isDoubted = true;
    await this.control.call('org.varlink.service.GetInfo');
    this.#isDoubted = false;
    this.#heard = now();
    this.leavePage();
  }

  /**
   * Sends a report. An older broker refuses the whole of it for a field that it does not know.
   *
   * @param {import('./messages.js').Known} known
   * @throws {import('./errors.js').PlimsollError} as `call` of the connection
   */
  async report(known) {
    const { worth, ...others } = known;
    const sent = this.#takesWorth ? known : others;
    if (Object.keys(sent).length === 0) return;
    try {
      await this.control.call('io.plimsoll.Report', reportParameters(this.id, sent));
    } catch (error) {
      const isOld = error instanceof PlimsollError && error.parameter === 'worth';
      if (!isOld || !this.#takesWorth || worth === undefined) throw error;
      this.#takesWorth = false;
      await this.report(others);
    }
  }

  close() {
    this.control.close();
    this.stream.close();
    this.leavePage();
  }
}
