/**
 * The watcher keeps a principal's numbers current. While joined it takes the changes that the broker tells
 * of, sends what the program reports, and looks at the heartbeat each second. While alone it senses, and
 * tries to join with growing pauses.
 *
 * @module
 */

import { Bond } from './bond.js';
import { MILLISECOND, now } from './clock.js';
import { isAbsent, isRefusal, PlimsollError } from './errors.js';
import { join } from './join.js';
import { Local } from './local.js';
import { setParameters } from './messages.js';
import { NOTHING } from './numbers.js';
import { Outbox } from './outbox.js';
import { PendingReleases } from './pending-releases.js';

/** How often the heartbeat is checked while joined. */
const LOOK_MS = 1000;
/** The first and the longest pause between tries to join. */
const FIRST_PAUSE_MS = 50;
const LAST_PAUSE_MS = 5000;
/**
 * After a broker is gone: how often to look for a principal that another process registered, before the
 * program registers by itself. With the pauses this takes some seconds, in which `plimsoll run` rejoins and
 * brings weight and name back.
 */
const FINDS = 6;

/**
 * @typedef {import('./numbers.js').Reading} Reading
 * @typedef {import('./join.js').Wish} Wish
 * @typedef {import('./join.js').Joined} Joined
 * @typedef {import('./messages.js').Changed} Changed
 */

export class Watcher {
  /** The wishes of the user of this package. Replaced at each change. @type {Wish} */
  wish;
  /** Why the last try to join, report or release failed; cleared by a join. @type {Error | null} */
  lastError = null;
  #onNews;
  #local;
  #outbox = new Outbox();
  #pending = new PendingReleases();
  /** @type {Bond | null} */
  #bond = null;
  /** The numbers that were told last. @type {import('./events.js').State} */
  #state = {
    reading: { ...NOTHING, source: 'local', heartbeat: 0, generation: 0 },
    joined: false,
    joins: 0,
  };
  #wasJoined = false;
  /** Remaining tries to find the principal that another process registered. */
  #finds = 0;
  #pauseMs = FIRST_PAUSE_MS;
  #nextTry = 0;
  /** Whether a try to join, a message or a question is under way. */
  #isJoining = false;
  #isSending = false;
  #isAsking = false;
  #isClosed = false;
  /** @type {NodeJS.Timeout | undefined} */
  #timer;

  /**
   * @param {Wish} wish
   * @param {() => void} onNews is called after each change of the state
   */
  constructor(wish, onNews) {
    this.wish = wish;
    this.#onNews = onNews;
    this.#local = new Local(wish.register.pid ?? null);
  }

  /**
   * Makes the first try to join.
   *
   * @throws {PlimsollError} the broker's refusal. That no broker answers is no error, nor that another user
   *   took its place.
   */
  async begin() {
    try {
      await this.#join();
    } catch (error) {
      const isTaken = error instanceof PlimsollError && error.code === 'PLIMSOLL_UNTRUSTED';
      // The environment is older than the broker. Look for the principal by its process from now on.
      const isOlder = isRefusal(error, 'NoSuchPrincipal') && this.wish.existing !== null;
      if (!isAbsent(error) && !isTaken && !isOlder) {
        this.close();
        throw error;
      }
      this.#wasJoined ||= isOlder;
      this.#sense();
    }
    this.#arm();
  }

  /** The number of the principal at the broker; null while alone. */
  get id() {
    return this.#bond?.id ?? null;
  }

  /** The path of the broker's socket; null while alone. */
  get socket() {
    return this.#bond?.control.place.path ?? null;
  }

  /**
   * The present numbers. One system call while the broker's page is there.
   *
   * @returns {Reading}
   */
  read() {
    return this.#pending.settle(this.#bond?.read() ?? this.#state.reading);
  }

  /**
   * The state that the broker told last, with what was given back.
   *
   * @returns {import('./events.js').State}
   */
  state() {
    return { ...this.#state, reading: this.#pending.settle(this.#state.reading) };
  }

  /** @param {import('./messages.js').Known} known checked */
  report(known) {
    this.#outbox.addReport(known);
    queueMicrotask(() => this.#send());
  }

  /** @param {number} bytes checked */
  released(bytes) {
    if (bytes === 0) return;
    this.#outbox.addReleased(bytes);
    this.#pending.add(bytes, now(), this.#state.reading);
    this.#onNews();
    queueMicrotask(() => this.#send());
  }

  /**
   * Makes a call about this principal, or leaves it to the next join if there is no broker.
   *
   * @param {string} method with its interface
   * @param {(id: number) => object} parameters
   * @throws {PlimsollError} the broker's refusal
   */
  async call(method, parameters) {
    if (this.#isClosed) throw new PlimsollError('PLIMSOLL_CLOSED', 'the principal was closed; open another');
    if (this.#bond === null) return;
    try {
      await this.#bond.control.call(method, parameters(this.#bond.id));
    } catch (error) {
      if (!isAbsent(error)) throw error;
    }
  }

  /** Ends the registration. */
  close() {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    if (this.#bond !== null) this.#state.reading = { ...this.#bond.read(), source: 'stale' };
    this.#unbind();
    this.#local.rest();
  }

  // Both.

  #arm() {
    if (this.#isClosed) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#look(), this.#pauseUntilLook()).unref();
  }

  #pauseUntilLook() {
    if (this.#bond !== null) return LOOK_MS;
    if (this.#isJoining) return this.#local.intervalMs;
    return Math.min(this.#local.intervalMs, Math.max(0, this.#nextTry - now()) / MILLISECOND);
  }

  #look() {
    if (this.#bond !== null) {
      this.#feelPulse(this.#bond);
      this.#send();
    } else {
      this.#sense();
      if (!this.#isJoining && now() >= this.#nextTry) this.#join().catch(() => {});
    }
    this.#arm();
  }

  /** @param {Reading} reading */
  #tell(reading) {
    this.#state = { ...this.#state, reading };
    this.#onNews();
  }

  /** @param {unknown} error */
  #note(error) {
    this.lastError = error instanceof Error ? error : new Error(String(error));
  }

  // Joined.

  /**
   * Takes the broker's last numbers over. If the page cannot be used, all numbers come from the connection.
   *
   * @param {Bond} bond
   * @param {boolean} isNew
   */
  #takeOver(bond, isNew = false) {
    try {
      if (isNew || bond.hasLostPage) bond.openPage();
    } catch (error) {
      this.#note(error);
    }
    this.#tell(bond.told());
  }

  /** Sends what waits, one message after the other. */
  async #send() {
    const bond = this.#bond;
    if (bond === null || this.#isSending) return;
    this.#isSending = true;
    try {
      for (let some = this.#outbox.take(); some !== null; some = this.#outbox.take()) {
        const { released, known } = some;
        if (released > 0) await bond.control.call('io.plimsoll.Released', { id: bond.id, bytes: released });
        if (known !== null) await bond.report(known);
        if (bond !== this.#bond) return;
      }
    } catch (error) {
      // A refusal is a mistake of the program; any other error has ended the connection.
      this.#note(error);
    } finally {
      this.#isSending = false;
    }
  }

  /**
   * Checks whether the broker lives.
   *
   * @param {Bond} bond
   */
  async #feelPulse(bond) {
    if (bond.hasLostPage) this.#takeOver(bond);
    if (bond.isFresh || this.#isAsking) return;
    this.#isAsking = true;
    try {
      await bond.ask();
      if (bond === this.#bond) this.#takeOver(bond);
    } catch (error) {
      if (bond === this.#bond) this.#part(error);
    } finally {
      this.#isAsking = false;
    }
  }

  /**
   * The broker is gone. Changes to local numbers at once, and tries to rejoin soon.
   *
   * @param {unknown} error
   */
  #part(error) {
    const bond = this.#bond;
    if (bond === null) return;
    this.#unbind();
    this.#note(error);
    this.#local.inherit(bond.last.numbers.limit, now());
    this.#pauseMs = FIRST_PAUSE_MS;
    this.#nextTry = now() + this.#pauseMs * MILLISECOND;
    this.#state = { ...this.#state, joined: false };
    this.#sense();
    this.#arm();
  }

  #unbind() {
    this.#bond?.close();
    this.#bond = null;
  }

  // Alone.

  #sense() {
    this.#local.setPid(this.wish.register.pid ?? null);
    this.#tell(this.#local.sense(now()));
  }

  /** @throws {PlimsollError} why there is no broker, or why it refused */
  async #join() {
    const before = { joined: this.#wasJoined, found: this.#finds > 0 };
    const wish = this.wish;
    /** @type {{ last: Changed | null, bond: Bond | null }} */
    const told = { last: null, bond: null };
    const onChange = (/** @type {Changed} */ changed) => {
      told.last = changed;
      if (told.bond !== null) this.#hear(told.bond, changed);
    };
    this.#isJoining = true;
    try {
      const joined = await join(wish, before, onChange);
      told.bond = this.#bind(joined, /** @type {Changed} */ (/** @type {unknown} */ (told.last)));
    } catch (error) {
      this.#note(error);
      this.#nextTry = now() + jittered(this.#pauseMs) * MILLISECOND;
      this.#pauseMs = Math.min(this.#pauseMs * 2, LAST_PAUSE_MS);
      this.#finds = Math.max(0, this.#finds - 1);
      throw error;
    } finally {
      this.#isJoining = false;
    }
    await this.#catchUp(wish);
  }

  /**
   * @param {Joined} joined
   * @param {Changed} last
   * @returns {Bond}
   */
  #bind(joined, last) {
    const bond = new Bond(joined, last);
    this.#bond = bond;
    if (this.#isClosed) {
      this.#unbind();
      return bond;
    }
    this.#wasJoined = true;
    this.#finds = joined.registered === null && this.wish.existing === null ? FINDS : 0;
    this.#pauseMs = FIRST_PAUSE_MS;
    this.#local.rest();
    this.lastError = null;
    this.#outbox.startAnew();
    this.#state = { ...this.#state, joined: true, joins: this.#state.joins + 1 };
    this.#takeOver(bond, true);
    const part = (/** @type {unknown} */ error) => {
      if (bond === this.#bond) this.#part(error);
    };
    for (const connection of [joined.control, joined.stream]) {
      connection.onEnd = part;
      if (connection.isEnded) part(new PlimsollError('PLIMSOLL_CLOSED', 'the broker left at once'));
    }
    this.#send();
    this.#arm();
    return bond;
  }

  /**
   * @param {Bond} bond
   * @param {Changed} changed
   */
  #hear(bond, changed) {
    if (bond !== this.#bond) return;
    bond.hear(changed);
    this.#takeOver(bond);
  }

  /**
   * Tells the broker what was wished for while it was joined.
   *
   * @param {Wish} wish that it knows
   */
  async #catchUp(wish) {
    const { settings, register } = this.wish;
    if (settings !== wish.settings) await this.call('io.plimsoll.Set', (id) => setParameters(id, settings));
    const { pid, adapter = null } = register;
    if (pid !== wish.register.pid) await this.call('io.plimsoll.Attach', (id) => ({ id, pid }));
    if (adapter !== (wish.register.adapter ?? null)) {
      await this.call('io.plimsoll.Adapt', (id) => ({ id, adapter }));
    }
  }
}

/**
 * A random time between half and all of a pause, so that a thousand programs do not rejoin at once.
 *
 * @param {number} ms
 */
function jittered(ms) {
  return ms / 2 + (Math.random() * ms) / 2;
}
