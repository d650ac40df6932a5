/**
 * Varlink: JSON objects, each ended by one NUL byte.
 *
 * @module
 */

import { PlimsollError } from './errors.js';

/** Longest message to the broker, bytes. */
const MAX_CALL = 64 * 1024;
/** Pieces of an unfinished message that are kept apart. */
const MAX_PIECES = 64;

/** Refuses bytes that are no UTF-8 instead of replacing them. */
const TEXT = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * @param {string} why
 */
export function protocolError(why) {
  return new PlimsollError(
    'PLIMSOLL_PROTOCOL',
    `the broker answered against the protocol: ${why}; update the older of the two`,
  );
}

/**
 * A call, with its NUL byte.
 *
 * @param {string} method with its interface
 * @param {object} parameters those that are undefined are left out
 * @param {{ more?: true, oneway?: true }} [mode]
 * @returns {Buffer}
 * @throws {PlimsollError} `PLIMSOLL_INVALID` when it is longer than the broker accepts
 */
export function encodeCall(method, parameters, mode = {}) {
  const bytes = Buffer.from(`${JSON.stringify({ method, parameters, ...mode })}\0`);
  if (bytes.length > MAX_CALL + 1) {
    const why = `the message would have ${bytes.length - 1} bytes, the broker takes ${MAX_CALL}`;
    throw new PlimsollError('PLIMSOLL_INVALID', why);
  }
  return bytes;
}

/**
 * @typedef {Record<string, unknown>} Parameters
 */

/**
 * Reads a message of the broker. Its parameters are not checked yet.
 *
 * @param {Buffer} message without its NUL byte
 * @returns {{ parameters: Parameters, continues: boolean }}
 * @throws {PlimsollError} `PLIMSOLL_REFUSED` or `PLIMSOLL_PROTOCOL`
 */
export function parseReply(message) {
  let reply;
  try {
    reply = JSON.parse(TEXT.decode(message));
  } catch {
    throw protocolError('the reply is no JSON');
  }
  if (!isObject(reply)) throw protocolError('the reply is no JSON object');
  const { parameters = null, error = null, continues = false } = reply;
  const given = parameters ?? {};
  if (!isObject(given)) throw protocolError('the parameters are no JSON object');
  if (typeof continues !== 'boolean') throw protocolError('`continues` is no boolean');
  if (error === null) return { parameters: given, continues };
  if (typeof error !== 'string') throw protocolError('`error` is no text');
  const told = typeof given.message === 'string' ? given.message : error;
  const parameter = typeof given.parameter === 'string' ? given.parameter : undefined;
  throw new PlimsollError('PLIMSOLL_REFUSED', told, { errorName: error, parameter });
}

/**
 * @param {unknown} value
 * @returns {value is Parameters}
 */
export function isObject(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Cuts a byte stream into messages, however the bytes arrive. */
export class Decoder {
  #max;
  /** The unfinished message. @type {Buffer[]} */
  #pieces = [];
  #length = 0;

  /** @param {number} max longest message, bytes */
  constructor(max) {
    this.#max = max;
  }

  /**
   * Adds bytes.
   *
   * @param {Buffer} chunk
   * @returns {Buffer[]} the messages that are whole now, without their NUL bytes
   * @throws {PlimsollError} `PLIMSOLL_PROTOCOL` when one is empty or too long; then the connection is of no
   *   use any more
   */
  push(chunk) {
    const messages = [];
    let rest = chunk;
    for (let end = rest.indexOf(0); end >= 0; end = rest.indexOf(0)) {
      this.#add(rest.subarray(0, end));
      if (this.#length === 0) throw protocolError('an empty message');
      messages.push(Buffer.concat(this.#pieces));
      this.#pieces = [];
      this.#length = 0;
      rest = rest.subarray(end + 1);
    }
    this.#add(rest);
    return messages;
  }

  /** @param {Buffer} piece */
  #add(piece) {
    if (piece.length === 0) return;
    this.#length += piece.length;
    if (this.#length > this.#max) throw protocolError(`a message is longer than ${this.#max} bytes`);
    this.#pieces.push(piece);
    if (this.#pieces.length > MAX_PIECES) this.#pieces = [Buffer.concat(this.#pieces)];
  }
}
