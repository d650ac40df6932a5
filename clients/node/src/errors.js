/**
 * The errors of this package. Each message says what happened, to what, and what to do.
 *
 * @module
 */

/**
 * | code | is |
 * |---|---|
 * | `PLIMSOLL_INVALID` | an argument that cannot be |
 * | `PLIMSOLL_REFUSED` | the broker, or already a check here, refused; `errorName` says why |
 * | `PLIMSOLL_PROTOCOL` | the broker's answer is against the protocol |
 * | `PLIMSOLL_UNTRUSTED` | another user could have put the socket there |
 * | `PLIMSOLL_PAGE` | the availability page cannot be used; the numbers come from the connection |
 * | `PLIMSOLL_NO_BROKER` | no broker answers at any of the places |
 * | `PLIMSOLL_SOCKET` | the socket cannot be used |
 * | `PLIMSOLL_CLOSED` | the connection or the principal was closed |
 * | `PLIMSOLL_TIMEOUT` | the broker did not answer in time |
 * | `PLIMSOLL_ALONE` | the call needs a broker and none is there |
 *
 * @typedef {'PLIMSOLL_INVALID' | 'PLIMSOLL_REFUSED' | 'PLIMSOLL_PROTOCOL' | 'PLIMSOLL_UNTRUSTED'
 *   | 'PLIMSOLL_PAGE' | 'PLIMSOLL_NO_BROKER' | 'PLIMSOLL_SOCKET' | 'PLIMSOLL_CLOSED' | 'PLIMSOLL_TIMEOUT'
 *   | 'PLIMSOLL_ALONE'} ErrorCode
 */

/** An error of this package. Reading the numbers never throws one. */
export class PlimsollError extends Error {
  /**
   * @param {ErrorCode} code
   * @param {string} message
   * @param {{ cause?: unknown, errorName?: string, parameter?: string }} [more]
   */
  constructor(code, message, more = {}) {
    super(message, 'cause' in more ? { cause: more.cause } : undefined);
    this.name = 'PlimsollError';
    /** @type {ErrorCode} */
    this.code = code;
    /**
     * The full name of a refusal, such as `io.plimsoll.BadWeight`; null for other errors.
     *
     * @type {string | null}
     */
    this.errorName = more.errorName ?? null;
    /**
     * The parameter that the broker does not take, where a refusal names one.
     *
     * @type {string | null}
     */
    this.parameter = more.parameter ?? null;
  }
}

/**
 * A refusal of `io.plimsoll`.
 *
 * @param {string} name without the interface
 * @param {string} message
 */
export function refused(name, message) {
  return new PlimsollError('PLIMSOLL_REFUSED', message, { errorName: `io.plimsoll.${name}` });
}

const ABSENT = [
  'PLIMSOLL_NO_BROKER',
  'PLIMSOLL_SOCKET',
  'PLIMSOLL_CLOSED',
  'PLIMSOLL_TIMEOUT',
  'PLIMSOLL_ALONE',
];

/**
 * Whether there is no broker to talk to, as opposed to one that refuses.
 *
 * @param {unknown} error
 */
export function isAbsent(error) {
  return error instanceof PlimsollError && ABSENT.includes(error.code);
}

/**
 * Whether it is this refusal of `io.plimsoll`.
 *
 * @param {unknown} error
 * @param {string} name without the interface
 */
export function isRefusal(error, name) {
  return error instanceof PlimsollError && error.errorName === `io.plimsoll.${name}`;
}

/**
 * The system's code of an error, such as `ENOENT`; its message where it has none.
 *
 * @param {unknown} error
 * @returns {string}
 */
export function causeOf(error) {
  const { code, message } = /** @type {NodeJS.ErrnoException} */ (error);
  return code ?? message;
}
