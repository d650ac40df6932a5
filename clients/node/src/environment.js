/**
 * The environment of this process, if it can be trusted.
 *
 * @module
 */

import { readFileSync } from 'node:fs';

/** `AT_SECURE` of the auxiliary vector (getauxval(3)). */
const AT_SECURE = 23n;

/** @type {boolean | undefined} */
let trusted;

/**
 * The value of a variable; undefined if it is not set, is empty, or cannot be trusted. A program with more
 * rights than the user who started it got its variables from somebody with fewer rights, so it trusts none.
 *
 * @param {string} name
 * @returns {string | undefined}
 */
export function variable(name) {
  trusted ??= isTrusted();
  return (trusted && process.env[name]) || undefined;
}

/** Whether this process has no more rights than the user who started it. */
function isTrusted() {
  try {
    const vector = readFileSync('/proc/self/auxv');
    for (let at = 0; at + 16 <= vector.length; at += 16) {
      if (vector.readBigUInt64LE(at) === AT_SECURE) return vector.readBigUInt64LE(at + 8) === 0n;
    }
    return false;
  } catch {
    // The kernel hides this file of a program with more rights. Where there is no such file, the users tell.
    return process.platform !== 'linux' && process.getuid?.() === process.geteuid?.();
  }
}
