/**
 * Collections of V8.
 *
 * @module
 */

import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * A full collection of V8, also where the program was not started with `--expose-gc`.
 *
 * @returns {() => void}
 */
export function collector() {
  if (globalThis.gc !== undefined) return globalThis.gc;
  setFlagsFromString('--expose-gc');
  return runInNewContext('gc');
}
