/**
 * Connections to a broker. Every call has a deadline, whatever the other side does.
 *
 * @module
 */

import { connect } from 'node:net';
import { MILLISECOND, now } from './clock.js';
import { causeOf, PlimsollError } from './errors.js';
import { sleep } from './held.js';
import { readChanged } from './messages.js';
import { checkPlace } from './socket.js';
import { Decoder, encodeCall, parseReply, protocolError } from './varlink.js';

/** Longest reply, bytes: a listing of many principals is long. */
const MAX_REPLY = 16 * 1024 * 1024;
/** Longest message that tells of a change, bytes. */
const MAX_CHANGE = 64 * 1024;
/** The pause between two tries to connect while the broker's queue of connections is full. */
const QUEUE_FULL_MS = 10;

/**
 * @typedef {import('./socket.js').Place} Place
 * @typedef {import('./varlink.js').Parameters} Parameters
 * @typedef {import('./messages.js').Changed} Changed
 *
 * @typedef {object} Call that waits for its answer
 * @property {(parameters: Parameters) => void} resolve
 * @property {(error: unknown) => void} reject
 * @property {NodeJS.Timeout} timer
 */

/**
 * One connection. After a timeout or an answer that breaks the protocol it is closed for good, because the
 * next answer could belong to another call. It does not keep the process alive.
 */
export class Connection {
  /** Where the broker was found. */
  place;
  /** Is called once, when the connection ended by itself. @type {((error: unknown) => void) | null} */
  onEnd = null;
  #socket;
  #timeoutMs;
  #decoder = new Decoder(MAX_REPLY);
  /** Calls without an answer, oldest first; the broker answers in order. @type {Call[]} */
  #calls = [];
  /** Takes the messages of a stream. @type {((reply: ReturnType<typeof parseReply>) => void) | null} */
  #onReply = null;
  /** Why it ended. @type {unknown} */
  #ended = null;

  /**
   * @param {Place} place
   * @param {import('node:net').Socket} socket
   * @param {number} timeoutMs
   */
  constructor(place, socket, timeoutMs) {
    this.place = place;
    this.#socket = socket;
    this.#timeoutMs = timeoutMs;
    socket.on('data', (chunk) => this.#receive(chunk));
    socket.on('error', (error) => this.#end(socketError('use', place, error)));
    socket.on('close', () => this.#end(closedError(place)));
  }

  /**
   * Connects. `timeoutMs` bounds this and every later call.
   *
   * @param {Place} place
   * @param {number} timeoutMs
   * @throws {PlimsollError} `PLIMSOLL_SOCKET`, `PLIMSOLL_TIMEOUT`, `PLIMSOLL_UNTRUSTED`
   */
  static async open(place, timeoutMs) {
    checkPlace(place);
    const deadline = now() + timeoutMs * MILLISECOND;
    for (;;) {
      try {
        return new Connection(place, await connected(place.path), timeoutMs);
      } catch (error) {
        if (causeOf(error) !== 'EAGAIN' || now() >= deadline) throw socketError('connect to', place, error);
      }
      await sleep(QUEUE_FULL_MS);
    }
  }

  /** Whether it is closed for good. */
  get isEnded() {
    return this.#ended !== null;
  }

  /**
   * Makes a call with one answer.
   *
   * @param {string} method with its interface
   * @param {object} [parameters]
   * @returns {Promise<Parameters>} the answer, not checked yet
   * @throws {PlimsollError} the broker's refusal, or why the connection ended
   */
  async call(method, parameters = {}) {
    return this.#send(encodeCall(method, parameters));
  }

  /**
   * Turns the connection into a stream of a principal's changes.
   *
   * @param {number} id
   * @param {(changed: Changed) => void} onChange takes each; the first comes at once
   * @returns {Promise<unknown>} fulfilled after the first change
   * @throws {PlimsollError} as {@link Connection.call}
   */
  async subscribe(id, onChange) {
    this.#decoder = new Decoder(MAX_CHANGE);
    this.#onReply = ({ parameters, continues }) => {
      onChange(readChanged(parameters));
      this.#next()?.resolve(parameters);
      if (!continues) throw closedError(this.place);
    };
    return this.#send(encodeCall('io.plimsoll.Subscribe', { id }, { more: true }));
  }

  /** Ends it without a call of `onEnd`. */
  close() {
    this.onEnd = null;
    this.#end(closedError(this.place));
  }

  /**
   * Sends a message; fulfilled with the parameters of its answer. If none comes in time, the connection ends.
   *
   * @param {Buffer} bytes
   * @returns {Promise<Parameters>}
   */
  #send(bytes) {
    if (this.isEnded) return Promise.reject(closedError(this.place));
    return new Promise((resolve, reject) => {
      const late = () => {
        if (this.#calls.includes(call)) this.#end(this.#late());
      };
      // A process that was stopped meanwhile finds the answer that came, because input is read before the
      // check.
      const timer = setTimeout(() => setImmediate(late), this.#timeoutMs).unref();
      const call = { resolve, reject, timer };
      this.#calls.push(call);
      this.#socket.write(bytes);
    });
  }

  /** The oldest call that waits, which waits no more. */
  #next() {
    const call = this.#calls.shift();
    clearTimeout(call?.timer);
    return call;
  }

  /** @param {Buffer} chunk */
  #receive(chunk) {
    if (this.isEnded) return;
    try {
      for (const message of this.#decoder.push(chunk)) this.#answer(message);
    } catch (error) {
      this.#end(error);
    }
  }

  /** @param {Buffer} message */
  #answer(message) {
    if (this.#onReply !== null) return this.#onReply(parseReply(message));
    const call = this.#next();
    if (call === undefined) throw protocolError('an answer without a call');
    try {
      const { parameters, continues } = parseReply(message);
      if (continues) throw protocolError('more than one answer to a call that wants one');
      call.resolve(parameters);
    } catch (error) {
      call.reject(error);
      // A refusal is a mistake of the caller; the connection is fine.
      if (!(error instanceof PlimsollError) || error.code !== 'PLIMSOLL_REFUSED') throw error;
    }
  }

  /** @param {unknown} error */
  #end(error) {
    if (this.isEnded) return;
    this.#ended = error;
    this.#socket.destroy();
    for (const { reject, timer } of this.#calls.splice(0)) {
      clearTimeout(timer);
      reject(error);
    }
    this.onEnd?.(error);
  }

  #late() {
    const how = `did not answer within ${this.#timeoutMs} ms; look with \`plimsoll doctor\``;
    return new PlimsollError('PLIMSOLL_TIMEOUT', `the broker at ${this.place.path} ${how}`);
  }
}

/**
 * Connects to the first of these places that answers and can be trusted.
 *
 * @param {Place[]} places
 * @param {number} timeoutMs
 * @returns {Promise<Connection>}
 * @throws {PlimsollError} `PLIMSOLL_NO_BROKER`; `PLIMSOLL_UNTRUSTED` if only untrusted processes listen
 */
export async function firstConnection(places, timeoutMs) {
  let untrusted = null;
  for (const place of places) {
    try {
      return await Connection.open(place, timeoutMs);
    } catch (error) {
      if (error instanceof PlimsollError && error.code === 'PLIMSOLL_UNTRUSTED') untrusted ??= error;
    }
  }
  if (untrusted !== null) throw untrusted;
  const tried = places.map(({ path }) => path).join(', ');
  const how = 'start one with `plimsolld` or use `plimsoll run`';
  throw new PlimsollError('PLIMSOLL_NO_BROKER', `no broker runs (looked at ${tried}); ${how}`);
}

/**
 * A connected socket that does not keep the process alive. The kernel connects at once or not at all.
 *
 * @param {string} path
 * @returns {Promise<import('node:net').Socket>}
 */
function connected(path) {
  return new Promise((resolve, reject) => {
    const socket = connect({ path });
    socket.unref();
    socket.once('error', reject);
    socket.once('connect', () => {
      socket.off('error', reject);
      resolve(socket);
    });
  });
}

/** @param {Place} place */
export function closedError({ path }) {
  return new PlimsollError('PLIMSOLL_CLOSED', `the broker at ${path} closed the connection; open another`);
}

/**
 * @param {string} doing
 * @param {Place} place
 * @param {unknown} cause
 */
function socketError(doing, place, cause) {
  return new PlimsollError('PLIMSOLL_SOCKET', `cannot ${doing} ${place.path}: ${causeOf(cause)}`, { cause });
}
