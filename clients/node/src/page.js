/**
 * The availability page: a file of 4096 bytes that only the broker writes. Node cannot map it, so each look
 * copies its first 112 bytes with one system call. A read beyond the end of a truncated file is short and
 * raises no signal.
 *
 * @module
 */

import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { SECOND } from './clock.js';
import { causeOf, PlimsollError } from './errors.js';
import { clamped, LEVELS } from './numbers.js';

const MAGIC = Buffer.from('PLIMSOLL');
const VERSION = 1;
const PAGE_SIZE = 4096;
/** Bytes with fields. */
const LENGTH = 112;
/** Offsets of the fields. */
const AT = {
  version: 8,
  size: 12,
  sequence: 16,
  limit: 24,
  available: 32,
  owed: 40,
  deadline: 48,
  uses: 56,
  share: 64,
  level: 72,
  heartbeat: 80,
  generation: 88,
  id: 96,
  sensed: 104,
};
/**
 * How often a page is copied while it is being written. A writer needs microseconds; one that died meanwhile
 * never ends.
 */
const TRIES = 64;
/** If a heartbeat is older than this (ns), the broker is gone. */
export const STALE_AFTER = 3 * SECOND;

/**
 * @typedef {import('./numbers.js').Numbers & { heartbeat: number, generation: number, id: number }}
 *   PageNumbers
 */

/**
 * @param {Buffer} bytes
 * @param {number} at
 */
function word(bytes, at) {
  return bytes.readUInt32LE(at) + bytes.readUInt32LE(at + 4) * 2 ** 32;
}

/**
 * Why the bytes are no availability page of this version; null when they are one.
 *
 * @param {Buffer} bytes at least 112
 * @returns {string | null}
 */
export function faultOf(bytes) {
  if (!hasMagic(bytes)) {
    return 'it does not begin with PLIMSOLL: it is no availability page, or it was truncated';
  }
  const version = bytes.readUInt32LE(AT.version);
  if (version !== VERSION) {
    return `its layout version is ${version}, this program reads ${VERSION}: update the older of the two`;
  }
  const size = bytes.readUInt32LE(AT.size);
  return size === PAGE_SIZE ? null : `it says that it is ${size} bytes long, expected ${PAGE_SIZE}`;
}

/**
 * The contents of a copy that was not written meanwhile; null when nothing was published yet, when a writer
 * was at work, or when it is no page any more.
 *
 * @param {Buffer} bytes at least 112
 * @returns {PageNumbers | null}
 */
export function decode(bytes) {
  const sequence = word(bytes, AT.sequence);
  if (sequence === 0 || sequence % 2 === 1 || !hasMagic(bytes)) return null;
  return {
    limit: clamped(word(bytes, AT.limit)),
    available: clamped(word(bytes, AT.available)),
    owed: clamped(word(bytes, AT.owed)),
    deadline: word(bytes, AT.deadline),
    uses: clamped(word(bytes, AT.uses)),
    share: clamped(word(bytes, AT.share)),
    level: LEVELS[Math.min(word(bytes, AT.level), 2)] ?? 'critical',
    sensed: word(bytes, AT.sensed),
    heartbeat: word(bytes, AT.heartbeat),
    generation: word(bytes, AT.generation),
    id: word(bytes, AT.id),
  };
}

/**
 * Whether the broker that wrote a page is gone, judged by its heartbeat.
 *
 * @param {{ heartbeat: number }} page
 * @param {number} now ns
 */
export function isStale(page, now) {
  return now - page.heartbeat > STALE_AFTER;
}

/** @param {Buffer} bytes */
function hasMagic(bytes) {
  return bytes.compare(MAGIC, 0, MAGIC.length, 0, MAGIC.length) === 0;
}

/** An open page. */
export class PageFile {
  #descriptor;
  #bytes = Buffer.alloc(LENGTH);
  #again = Buffer.alloc(LENGTH);
  /** The last numbers, and the sequence that they were published with; 0 before there were any. */
  #sequence = 0;
  /** @type {PageNumbers | null} */
  #numbers = null;

  /**
   * @param {string} path
   * @param {number} id of the principal that it has to belong to
   * @throws {PlimsollError} `PLIMSOLL_PAGE`
   */
  constructor(path, id) {
    const refuse = (/** @type {string} */ why) =>
      new PlimsollError('PLIMSOLL_PAGE', `cannot use the availability page ${path}: ${why}`);
    try {
      // Without O_NONBLOCK a pipe at this place would block the program.
      this.#descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
    } catch (error) {
      throw refuse(causeOf(error));
    }
    const why = this.#faultFor(id);
    if (why !== null) {
      this.close();
      throw refuse(why);
    }
  }

  /**
   * @param {number} id
   * @returns {string | null}
   */
  #faultFor(id) {
    try {
      const status = fstatSync(this.#descriptor);
      if (!status.isFile()) return 'it is no file';
      if (status.size < PAGE_SIZE || !this.#copy(this.#bytes)) return `it has ${status.size} bytes`;
    } catch (error) {
      return causeOf(error);
    }
    const found = word(this.#bytes, AT.id);
    return faultOf(this.#bytes) ?? (found === id ? null : `it belongs to principal ${found}, not to ${id}`);
  }

  /**
   * The numbers of one moment; null when the page shows none. One system call as long as they are those of
   * the last look.
   *
   * @returns {Readonly<PageNumbers> | null}
   */
  read() {
    try {
      if (!this.#copy(this.#bytes)) return null;
      const sequence = word(this.#bytes, AT.sequence);
      // While the sequence is the same, no number has changed, even if this copy was torn. The heartbeat
      // is written without it.
      if (this.#numbers === null || sequence !== this.#sequence) return this.#readNew();
      const heartbeat = word(this.#bytes, AT.heartbeat);
      if (heartbeat !== this.#numbers.heartbeat) this.#numbers = { ...this.#numbers, heartbeat };
      return this.#numbers;
    } catch {
      return null;
    }
  }

  /** Two equal copies one after the other prove that the first was not written meanwhile. */
  #readNew() {
    for (let tries = 0; tries < TRIES; tries++) {
      if (!this.#copy(this.#again)) return null;
      const numbers = this.#again.equals(this.#bytes) ? decode(this.#bytes) : null;
      if (numbers !== null) {
        this.#sequence = word(this.#bytes, AT.sequence);
        this.#numbers = numbers;
        return numbers;
      }
      [this.#bytes, this.#again] = [this.#again, this.#bytes];
      if (!hasMagic(this.#bytes) || word(this.#bytes, AT.sequence) === 0) return null;
    }
    return null;
  }

  /** Whether the file can be read no more as a page: it was truncated or overwritten. */
  isGone() {
    try {
      return !this.#copy(this.#again) || faultOf(this.#again) !== null;
    } catch {
      return true;
    }
  }

  close() {
    closeSync(this.#descriptor);
  }

  /** @param {Buffer} to */
  #copy(to) {
    return readSync(this.#descriptor, to, 0, LENGTH, 0) === LENGTH;
  }
}
