/**
 * A principal: registered with a broker, or on its own.
 *
 * @module
 */

import { EventEmitter } from 'node:events';
import { variable } from './environment.js';
import { PlimsollError } from './errors.js';
import { EventQueue, Follower } from './events.js';
import { held } from './held.js';
import {
  checkAdapter,
  checkKnown,
  checkName,
  checkPid,
  checkSettings,
  given,
  setParameters,
} from './messages.js';
import { amount } from './numbers.js';
import { candidates, surroundings } from './socket.js';
import { Watcher } from './watcher.js';

/** How long each step of a join may take, ms. */
const TIMEOUT_MS = 1000;

/**
 * @typedef {import('./numbers.js').Reading} Reading
 * @typedef {import('./events.js').PlimsollEvent} PlimsollEvent
 * @typedef {import('./messages.js').Known} Known
 * @typedef {import('./messages.js').Settings} Settings
 * @typedef {import('./join.js').Wish} Wish
 *
 * @typedef {object} Options
 * @property {number} [weight] 1 to 10000; 100 if absent
 * @property {number} [priority] -100 to 100; a higher class is served first; 0 if absent
 * @property {number} [max] bytes, never more than this; 0 or absent: no bound
 * @property {string | null} [adapter] who adapts; `self` if absent, null for a passive program, which is
 *   never asked for memory
 * @property {number | null} [pid] the process; this one if absent, null if it comes later by `attach`
 * @property {string} [socket] path of the broker's socket; absent: where brokers are
 * @property {boolean} [alone] no broker, local sensing only
 * @property {boolean} [fromEnvironment] in a process of a program under `plimsoll run` that is not the
 *   program itself: uses the program's principal
 * @property {boolean} [whole] the process may be the first of a container, or have more than 100 descendants
 * @property {number} [timeoutMs] how long each step of a join and each call may take, ms; 1000 if absent
 *
 * @typedef {Omit<Options, 'socket' | 'alone' | 'fromEnvironment'>} ChildOptions
 */

/**
 * How much memory a program may use now.
 *
 * Emits `owed`, `relief`, `changed`, `brokerLost` and `joined`, each with the numbers at that moment. Changes
 * that come faster than the program can take them are merged; the last numbers are always told.
 *
 * Neither the principal nor its events keep the process alive; `ref` changes that. Awaiting something that
 * has an end (`open`, `wait`, `set`) does.
 *
 * @extends {EventEmitter<{ [Type in import('./events.js').EventType]: [Reading] }>}
 */
export class Principal extends EventEmitter {
  #watcher;
  #follower;
  #first;
  /** @type {Set<EventQueue>} */
  #queues = new Set();
  /** For {@link Principal.wait}. */
  #queue;
  #isTelling = false;
  /** @type {NodeJS.Timeout | null} */
  #holder = null;

  /**
   * Use {@link Principal.open}.
   *
   * @param {Wish} wish
   * @hideconstructor
   */
  constructor(wish) {
    super();
    this.#watcher = new Watcher(wish, () => this.#announce());
    this.#first = this.#watcher.state();
    this.#follower = new Follower(this.#first);
    this.#queue = this.#newQueue();
  }

  /**
   * Registers. Under `plimsoll run` the process is a principal already: that one is used, and keeps its
   * weight, priority and maximum. Succeeds without a broker too; the principal is then alone until one runs.
   * Takes a few timeouts at most if a broker hangs.
   *
   * @param {string} name 1 to 64 bytes of printable text
   * @param {Options} [options]
   * @returns {Promise<Principal>}
   * @throws {PlimsollError} `PLIMSOLL_REFUSED` (an option that cannot be, or the broker refuses) or
   *   `PLIMSOLL_PROTOCOL` (it talks nonsense)
   */
  static async open(name, options = {}) {
    return Principal.#opened(wishOf(name, options));
  }

  /**
   * The present numbers. One system call, or none while alone. Never throws and never waits. Memory that
   * {@link Principal.released} told of counts as given back at once.
   *
   * @returns {Reading}
   */
  read() {
    return this.#watcher.read();
  }

  /**
   * Waits for the next event. If several wait, each event goes to one of them. Keeps the process alive.
   *
   * @param {number} timeoutMs
   * @returns {Promise<PlimsollEvent | { type: 'timeout', reading: Reading }>} `timeout` also when the
   *   principal was closed meanwhile
   */
  async wait(timeoutMs) {
    const event = await this.#queue.wait(timeoutMs);
    return event ?? { type: 'timeout', reading: this.read() };
  }

  /**
   * The events to iterate over. The first one tells of the state that is found. Ends when the principal is
   * closed or the signal aborts. Does not keep the process alive.
   *
   * @param {{ signal?: AbortSignal }} [options]
   * @returns {AsyncIterableIterator<PlimsollEvent>}
   */
  events({ signal } = {}) {
    const queue = this.#newQueue();
    signal?.addEventListener('abort', () => queue.close(), { once: true });
    if (signal?.aborted) queue.close();
    return queue;
  }

  /**
   * Reports that the program has given bytes back. Does not wait. Call it after the memory was freed, with
   * the bytes that really were: from then on they are not owed any more. If the broker then finds the memory
   * still in use, it is owed again.
   *
   * @param {number} bytes
   * @throws {RangeError} when it is no number, or negative
   */
  released(bytes) {
    this.#watcher.released(amount('bytes', bytes));
  }

  /**
   * Reports what the program knows of itself. Does not wait. Is told again to a broker that comes later.
   *
   * @param {Known} known absent fields keep their last value
   * @throws {RangeError} when a field is no number, or negative
   */
  report(known) {
    this.#watcher.report(checkKnown(known));
  }

  /**
   * Changes the registration. While no broker runs this is kept until one does.
   *
   * @param {Settings} settings absent ones stay
   * @throws {PlimsollError} `PLIMSOLL_REFUSED`
   */
  async set(settings) {
    const checked = checkSettings(settings);
    await held(this.#watcher.call('io.plimsoll.Set', (id) => setParameters(id, checked)));
    const { wish } = this.#watcher;
    this.#watcher.wish = { ...wish, settings: { ...wish.settings, ...checked } };
  }

  /**
   * Sets the process of a principal that was opened without one.
   *
   * @param {number} pid
   * @throws {PlimsollError} `PLIMSOLL_REFUSED`
   */
  async attach(pid) {
    const { whole } = this.#wishFor({ pid: checkPid(pid) });
    await held(this.#watcher.call('io.plimsoll.Attach', (id) => ({ id, pid, whole })));
  }

  /**
   * Tells who adapts from now on; null if nobody does.
   *
   * @param {string | null} adapter
   * @throws {PlimsollError} `PLIMSOLL_REFUSED`
   */
  async adapt(adapter) {
    const checked = adapter === null ? undefined : checkAdapter(adapter);
    if (checked === this.#watcher.wish.register.adapter) return;
    this.#wishFor({ adapter: checked });
    await held(this.#watcher.call('io.plimsoll.Adapt', (id) => ({ id, adapter })));
  }

  /**
   * Registers a child. It shares what this principal gets, and rejoins with it when a broker comes back.
   *
   * @param {string} name
   * @param {ChildOptions} [options]
   * @returns {Promise<Principal>}
   * @throws {PlimsollError} as {@link Principal.open}
   */
  async child(name, options = {}) {
    const wish = wishOf(name, options);
    const { places } = this.#watcher.wish;
    return Principal.#opened({ ...wish, places, parent: () => this.id });
  }

  /** Its number at the broker; null while alone. Changes at a rejoin. */
  get id() {
    return this.#watcher.id;
  }

  /** The path of the broker's socket; null while alone. */
  get socket() {
    return this.#watcher.socket;
  }

  /** Why the last try to join, report or release failed; null after a join. */
  get lastError() {
    return this.#watcher.lastError;
  }

  /** Keeps the process alive until `unref` or `close`. */
  ref() {
    this.#holder ??= setInterval(() => {}, 2 ** 31 - 1);
    return this;
  }

  /** Lets the process end; so it is at the start. */
  unref() {
    if (this.#holder !== null) clearInterval(this.#holder);
    this.#holder = null;
    return this;
  }

  /** Ends the registration. The last numbers can still be read. */
  close() {
    this.unref();
    this.#watcher.close();
    for (const queue of this.#queues) queue.close();
  }

  /** @param {Wish} wish */
  static async #opened(wish) {
    const principal = new Principal(wish);
    await held(principal.#watcher.begin());
    return principal;
  }

  #newQueue() {
    const state = () => this.#watcher.state();
    const queue = new EventQueue(this.#first, state, (closed) => this.#queues.delete(closed));
    this.#queues.add(queue);
    return queue;
  }

  /**
   * @param {Partial<import('./messages.js').Register>} change
   */
  #wishFor(change) {
    const { wish } = this.#watcher;
    const register = { ...wish.register, ...change };
    this.#watcher.wish = { ...wish, register };
    return register;
  }

  /** Tells of news once the present turn of the event loop is over: what listeners throw is theirs. */
  #announce() {
    for (const queue of this.#queues) queue.notify();
    if (this.#isTelling) return;
    this.#isTelling = true;
    setImmediate(() => {
      this.#isTelling = false;
      const event = this.#follower.take(this.#watcher.state());
      if (event !== null) this.emit(event.type, event.reading);
    });
  }
}

/**
 * @param {string} name
 * @param {Options} options
 * @returns {Wish}
 */
function wishOf(name, options) {
  const { weight, priority, max, adapter = 'self', pid = process.pid, socket, whole } = options;
  const { alone = false, fromEnvironment = false, timeoutMs = TIMEOUT_MS } = options;
  if (!(timeoutMs > 0 && timeoutMs < 2 ** 31)) {
    throw new PlimsollError('PLIMSOLL_INVALID', `timeoutMs is ${timeoutMs}: give 1 or more`);
  }
  const id = Number(variable('PLIMSOLL_ID') ?? Number.NaN);
  const named = Number.isSafeInteger(id) && id >= 0 ? id : null;
  const page = variable('PLIMSOLL_PAGE');
  const place = socket === undefined ? candidates(surroundings()) : [{ path: socket, owner: null }];
  return {
    register: given({
      name: checkName(name),
      kind: 'process',
      pid: pid === null ? undefined : checkPid(pid),
      adapter: adapter === null ? undefined : checkAdapter(adapter),
      whole,
      ...checkSettings({ weight, priority, max }),
    }),
    settings: {},
    parent: null,
    existing: fromEnvironment && named !== null && page !== undefined ? { id: named, page } : null,
    named,
    isUnnamed: variable('PLIMSOLL_UNNAMED') !== undefined,
    places: alone ? [] : place,
    timeoutMs,
  };
}
