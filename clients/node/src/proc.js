/**
 * Files of `/proc` and of cgroups, which stay open and are read again and again.
 *
 * @module
 */

import { closeSync, openSync, readSync } from 'node:fs';

/** Longest text that is read, bytes. */
const MAX_TEXT = 64 * 1024;

const buffer = Buffer.alloc(MAX_TEXT);

/** An open file of the kernel. */
export class KernelFile {
  #descriptor;

  /** @param {string} path */
  constructor(path) {
    this.#descriptor = openSync(path, 'r');
  }

  /** @returns {string} */
  text() {
    let length = 0;
    while (length < MAX_TEXT) {
      const count = readSync(this.#descriptor, buffer, length, MAX_TEXT - length, length);
      if (count === 0) break;
      length += count;
    }
    return buffer.toString('latin1', 0, length);
  }

  close() {
    closeSync(this.#descriptor);
  }
}

/**
 * The numbers in lines of `name value` and of `name: value kB`, in bytes. Lines that make no sense are passed
 * over.
 *
 * @param {string} text
 * @returns {Map<string, number>}
 */
export function pairs(text) {
  const found = new Map();
  for (const line of text.split('\n')) {
    const [, name, value, unit] = /^\s*(\S+?):?\s+(\d+)(?:\s+(\S+))?/.exec(line) ?? [];
    if (name !== undefined) found.set(name, Number(value) * (unit === 'kB' ? 1024 : 1));
  }
  return found;
}
