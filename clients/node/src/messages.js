/**
 * Parameters and replies of `io.plimsoll`: which are valid, and how they are written. Here they have the
 * names of this language, on the wire those of the interface.
 *
 * @module
 */

import { refused } from './errors.js';
import { amount, clamped, LEVELS } from './numbers.js';
import { isObject, protocolError } from './varlink.js';

const MIB = 2 ** 20;
const MAX_NAME = 64;
/** Longest path of a page, bytes. */
const MAX_PATH = 4096;
/** Control characters, marks that turn or break the line on a terminal, and halves of characters. */
const NOT_PRINTABLE = /[\p{Cc}\p{Cs}\u061C\u200E\u200F\u2028\u2029\u202A-\u202E\u2066-\u2069\uFEFF]/u;

/**
 * @typedef {object} Register
 * @property {string} name
 * @property {'process' | 'group'} [kind]
 * @property {number} [pid]
 * @property {number} [parent]
 * @property {number} [weight]
 * @property {number} [priority]
 * @property {number} [max]
 * @property {string} [adapter]
 * @property {boolean} [whole]
 *
 * @typedef {object} Settings absent ones stay
 * @property {number} [weight] 1 to 10000, beside its siblings
 * @property {number} [priority] -100 to 100; a higher class is served first
 * @property {number} [max] bytes, never more than this for it and its children; 0 removes the bound
 * @property {number} [ownWeight] of its own memory against its children's
 * @property {number} [ownPriority] of its own memory against its children's
 *
 * @typedef {object} Known what a program knows of itself; absent fields keep their last value
 * @property {number} [demand] the most bytes that it can make use of
 * @property {number} [floor] bytes below which it cannot go by adapting
 * @property {number} [live] live bytes after the last full collection
 * @property {number} [allocationRate] bytes per second that it allocates
 * @property {number} [collectionSpeed] bytes per second that a collection processes
 * @property {number} [reactionMs] how long giving memory back took, ms
 * @property {number} [collections] since its start
 * @property {number} [collectionMs] ms spent in them since its start
 * @property {number} [worth] ns that a cache would save in a second with one more MiB; see `Ghost`
 */

/** The name of each field on the wire. */
const SETTINGS = {
  weight: 'weight',
  priority: 'priority',
  max: 'max',
  ownWeight: 'own_weight',
  ownPriority: 'own_priority',
};
const KNOWN = {
  demand: 'demand',
  floor: 'floor',
  live: 'live',
  allocationRate: 'allocation_rate',
  collectionSpeed: 'collection_speed',
  reactionMs: 'reaction_ms',
  collections: 'collections',
  collectionMs: 'collection_ms',
  worth: 'worth',
};

/**
 * Checks a name, and returns it.
 *
 * @param {unknown} name
 * @returns {string}
 */
export function checkName(name) {
  const length = typeof name === 'string' ? Buffer.byteLength(name) : 0;
  if (typeof name !== 'string' || length === 0 || length > MAX_NAME) {
    throw refused('BadName', `a name has 1 to ${MAX_NAME} bytes, this one has ${length}`);
  }
  const bad = NOT_PRINTABLE.exec(name);
  if (bad === null) return name;
  const code = (bad[0].codePointAt(0) ?? 0).toString(16);
  throw refused('BadName', `a name holds printable text only, this one has \\u{${code}}; leave it out`);
}

/**
 * Checks the name of an adapter, and returns it.
 *
 * @param {unknown} adapter
 * @returns {string}
 */
export function checkAdapter(adapter) {
  if (typeof adapter === 'string' && /^[a-z0-9-]{1,32}$/.test(adapter)) return adapter;
  const how = 'give `self`, or null for a passive program';
  throw refused('BadName', `the name of an adapter has 1 to 32 bytes of a to z, 0 to 9 and -: ${how}`);
}

/**
 * Checks the number of a process, and returns it.
 *
 * @param {unknown} pid
 * @returns {number}
 */
export function checkPid(pid) {
  if (isWhole(pid, 1, 2 ** 31 - 1)) return pid;
  throw refused('NoSuchProcess', `${pid} is no process number: give the number that \`ps\` shows`);
}

/**
 * Checks settings, and returns those that are given.
 *
 * @param {Settings} settings
 * @returns {Settings}
 * @throws {import('./errors.js').PlimsollError} `PLIMSOLL_REFUSED` with `BadWeight`, `BadPriority` or
 *   `BadMax`
 */
export function checkSettings({ weight, priority, max, ownWeight, ownPriority }) {
  for (const given of [weight, ownWeight]) {
    if (given !== undefined && !isWhole(given, 1, 10_000)) {
      throw refused('BadWeight', `weight ${given} is out of range: give 1 to 10000`);
    }
  }
  for (const given of [priority, ownPriority]) {
    if (given !== undefined && !isWhole(given, -100, 100)) {
      throw refused('BadPriority', `priority ${given} is out of range: give -100 to 100`);
    }
  }
  if (max !== undefined && max !== 0 && !(typeof max === 'number' && max >= MIB && max <= 2 ** 62)) {
    throw refused('BadMax', `a maximum of ${max} bytes cannot be: give 1 MiB or more, or 0 for none`);
  }
  const whole = max === undefined ? undefined : Math.floor(clamped(max));
  return given({ weight, priority, max: whole, ownWeight, ownPriority });
}

/**
 * Checks a report, and returns the fields that are given.
 *
 * @param {Known} known
 * @returns {Known}
 * @throws {RangeError} when a field is no number, or negative
 */
export function checkKnown(known) {
  /** @type {Record<string, number>} */
  const checked = {};
  for (const name of Object.keys(KNOWN)) {
    const value = known[/** @type {keyof Known} */ (name)];
    if (value !== undefined) checked[name] = amount(name, value);
  }
  return checked;
}

/**
 * @param {unknown} value
 * @param {number} least
 * @param {number} most
 * @returns {value is number}
 */
function isWhole(value, least, most) {
  return Number.isInteger(value) && Number(value) >= least && Number(value) <= most;
}

/**
 * The fields that are not undefined.
 *
 * @template {object} T
 * @param {T} object
 * @returns {T}
 */
export function given(object) {
  const fields = Object.entries(object).filter(([, value]) => value !== undefined);
  return /** @type {T} */ (Object.fromEntries(fields));
}

/**
 * Parameters of `Set`.
 *
 * @param {number} id
 * @param {Settings} settings
 */
export function setParameters(id, settings) {
  return { id, ...renamed(SETTINGS, settings) };
}

/**
 * Parameters of `Report`.
 *
 * @param {number} id
 * @param {Known} known
 */
export function reportParameters(id, known) {
  return { id, ...renamed(KNOWN, known) };
}

/**
 * @param {Record<string, string>} names
 * @param {object} fields
 */
function renamed(names, fields) {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [names[name], value]));
}

/**
 * @typedef {import('./varlink.js').Parameters} Parameters
 * @typedef {{ id: number, page: string, pressure: string, weight: number, priority: number }} Registered
 * @typedef {{ id: number, generation: number, numbers: import('./numbers.js').Numbers }} Changed
 * @typedef {{ id: number, kind: string, name: string, pid: number | null, adapter: string | null,
 *   page: string | null }} Listed
 */

/**
 * The reply to `Register`.
 *
 * @param {Parameters} reply
 * @returns {Registered}
 * @throws {import('./errors.js').PlimsollError} `PLIMSOLL_PROTOCOL`, as all below
 */
export function readRegistered(reply) {
  return {
    id: size(reply, 'id'),
    page: path(reply, 'page'),
    pressure: path(reply, 'pressure'),
    weight: number(reply, 'weight'),
    priority: number(reply, 'priority'),
  };
}

/**
 * A reply to `Subscribe`.
 *
 * @param {Parameters} reply
 * @returns {Changed}
 */
export function readChanged(reply) {
  const { numbers } = reply;
  if (!isObject(numbers)) throw protocolError('`numbers` is no object');
  if (typeof numbers.level !== 'string') throw protocolError('`level` is no text');
  const level = LEVELS.find((known) => known === numbers.level);
  return {
    id: size(reply, 'id'),
    generation: size(reply, 'generation'),
    numbers: {
      limit: clamped(size(numbers, 'limit')),
      available: clamped(size(numbers, 'available')),
      owed: clamped(size(numbers, 'owed')),
      deadline: size(numbers, 'deadline'),
      uses: clamped(size(numbers, 'uses')),
      share: clamped(size(numbers, 'share')),
      // A newer broker may add levels above critical, as on the page.
      level: level ?? 'critical',
      sensed: numbers.sensed === undefined ? 0 : size(numbers, 'sensed'),
    },
  };
}

/**
 * The principals in a reply to `List`, children too. Does not recurse, because the broker says how deep they
 * are.
 *
 * @param {Parameters} reply
 * @returns {Listed[]}
 */
export function readListing(reply) {
  /** @type {Listed[]} */
  const listed = [];
  /** @type {unknown[]} */
  const left = [reply.principals ?? []];
  for (let some = left.pop(); some !== undefined; some = left.pop()) {
    if (!Array.isArray(some)) throw protocolError('principals are no list');
    for (const one of some) {
      if (!isObject(one)) throw protocolError('a principal is no object');
      listed.push({
        id: size(one, 'id'),
        kind: text(one.kind) ?? 'process',
        name: text(one.name) ?? '',
        pid: typeof one.pid === 'number' ? one.pid : null,
        adapter: text(one.adapter),
        page: text(one.page),
      });
      if (one.children !== undefined) left.push(one.children);
    }
  }
  return listed;
}

/** @param {unknown} value */
function text(value) {
  return typeof value === 'string' ? value : null;
}

/**
 * @param {Parameters} object
 * @param {string} name
 * @returns {number}
 */
function number(object, name) {
  const value = object[name];
  if (typeof value !== 'number' || !Number.isInteger(value)) throw protocolError(`\`${name}\` is no number`);
  return value;
}

/**
 * @param {Parameters} object
 * @param {string} name
 * @returns {number}
 */
function size(object, name) {
  const value = number(object, name);
  if (value < 0 || value > 2 ** 64) throw protocolError(`\`${name}\` is ${value}`);
  return value;
}

/**
 * @param {Parameters} object
 * @param {string} name
 * @returns {string}
 */
function path(object, name) {
  const value = object[name];
  if (typeof value === 'string' && value.length <= MAX_PATH && !value.includes('\0')) return value;
  throw protocolError(`\`${name}\` is no path`);
}
