/**
 * How much memory this program may use now.
 *
 * | module | is |
 * |---|---|
 * | `principal` | a principal: registered with a broker, or on its own |
 * | `watcher`, `bond` | keeps a principal's numbers current; the principal at a broker |
 * | `events` | which event follows from two states, and those who wait |
 * | `join` | registers or finds the principal again, and subscribes |
 * | `connection`, `socket` | calls with deadlines; the places of a broker's socket |
 * | `varlink`, `messages` | how messages are cut and written; what is in them |
 * | `page`, `numbers` | the availability page, and the numbers on it |
 * | `outbox`, `pending-releases` | what waits to be sent; what was given back and does not show yet |
 * | `local`, `domain`, `cgroup`, `proc` | what a program may use while it has no broker |
 * | `governor` | what a limit means inside a program: heap, releases, reports |
 * | `cache` | a cache that sizes itself; needs `lru-cache` |
 * | `ghost` | what more memory is worth to a cache |
 * | `follow`, `collect` | makes the heap of V8 follow the limit; its collections |
 * | `environment`, `clock`, `held`, `errors` | small things that the others share |
 *
 * @module
 */

export { now } from './clock.js';
export { PlimsollError } from './errors.js';
export { follow } from './follow.js';
export { Ghost } from './ghost.js';
export { Principal } from './principal.js';

/**
 * @typedef {import('./errors.js').ErrorCode} ErrorCode
 * @typedef {import('./events.js').EventType} EventType
 * @typedef {import('./events.js').PlimsollEvent} PlimsollEvent
 * @typedef {import('./messages.js').Known} Known
 * @typedef {import('./messages.js').Settings} Settings
 * @typedef {import('./numbers.js').Level} Level
 * @typedef {import('./numbers.js').Reading} Reading
 * @typedef {import('./numbers.js').Source} Source
 * @typedef {import('./principal.js').ChildOptions} ChildOptions
 * @typedef {import('./principal.js').Options} Options
 */
