/**
 * Keeping the process alive. The sockets and timers of this package do not. Awaiting something that has an
 * end does, so that an `await` at the top of a program is not cut short.
 *
 * @module
 */

/** The longest time that a timer can wait, ms. */
const LONGEST_MS = 2 ** 31 - 1;

/**
 * @param {() => void} run
 * @param {number} timeoutMs
 */
export function setTimeoutHeld(run, timeoutMs) {
  return setTimeout(run, Math.min(timeoutMs, LONGEST_MS));
}

/**
 * Keeps the process alive until the promise settles.
 *
 * @template T
 * @param {Promise<T>} promise
 * @returns {Promise<T>}
 */
export function held(promise) {
  const timer = setInterval(() => {}, LONGEST_MS);
  return promise.finally(() => clearInterval(timer));
}

/**
 * Resolves after a time, and does not keep the process alive.
 *
 * @param {number} ms
 * @returns {Promise<void>}
 */
export function sleep(ms) {
  return new Promise((resolve) => {
    setTimeout(resolve, ms).unref();
  });
}
