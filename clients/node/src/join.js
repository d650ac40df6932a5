/**
 * Joins a broker: registers (or finds the principal again) and subscribes.
 *
 * @module
 */

import { readFileSync } from 'node:fs';
import { Connection, closedError, firstConnection } from './connection.js';
import { isAbsent, isRefusal, PlimsollError, refused } from './errors.js';
import { sleep } from './held.js';
import { given, readListing, readRegistered, setParameters } from './messages.js';
import { pageOf } from './socket.js';

/** How many processes, from ours upwards, are checked for being a principal's. */
const ANCESTORS = 64;
/** How often, and with which pause, to check whether a principal has its process. */
const LOOKS = 100;
const LOOK_AGAIN_MS = 10;

/**
 * @typedef {import('./messages.js').Registered} Registered
 * @typedef {import('./messages.js').Changed} Changed
 * @typedef {import('./messages.js').Listed} Listed
 *
 * @typedef {object} Wish the settings by the user of this package, which every new broker is told
 * @property {import('./messages.js').Register} register
 * @property {import('./messages.js').Settings} settings what was set later, merged
 * @property {null | (() => number | null)} parent the number of its parent; it changes at a rejoin
 * @property {{ id: number, page: string } | null} existing a principal that another process registered
 * @property {number | null} named the principal that the environment names
 * @property {boolean} isUnnamed nobody gave that principal a name, so what the program calls itself prevails
 * @property {import('./socket.js').Place[]} places to try, in order
 * @property {number} timeoutMs longest wait for an answer
 *
 * @typedef {object} Before the history before a join
 * @property {boolean} joined the principal was joined to a broker before
 * @property {boolean} found another process had registered it, and is expected to do so again
 *
 * @typedef {object} Joined
 * @property {number} id
 * @property {string} page
 * @property {Registered | null} registered what was granted; null if another process registered it
 * @property {Connection} control the connection for calls, with which the principal ends
 * @property {Connection} stream the connection that tells of changes
 *
 * @typedef {{ id: number, page: string, registered: Registered | null }} Found
 */

/**
 * Joins the first broker that answers.
 *
 * @param {Wish} wish
 * @param {Before} before
 * @param {(changed: Changed) => void} onChange takes the changes of its numbers; the first one is taken
 *   before this is fulfilled
 * @returns {Promise<Joined>}
 * @throws {PlimsollError} no broker answers, or the one that answers refuses
 */
export async function join(wish, before, onChange) {
  const control = await firstConnection(wish.places, wish.timeoutMs);
  let stream = null;
  let found = null;
  try {
    found = await findOrRegister(control, wish, before);
    if (found.registered === null) await steer(control, wish, found.id);
    stream = await Connection.open(control.place, wish.timeoutMs);
    await stream.subscribe(found.id, onChange);
    return { ...found, control, stream };
  } catch (error) {
    control.close();
    stream?.close();
    const isGone = found?.registered && isRefusal(error, 'NoSuchPrincipal');
    // It was registered a moment ago and is gone, so the broker has ended the connection.
    throw isGone ? closedError(control.place) : error;
  }
}

/**
 * @param {Connection} control
 * @param {Wish} wish
 * @param {Before} before
 * @returns {Promise<Found>}
 */
async function findOrRegister(control, wish, before) {
  if (wish.existing !== null) {
    if (!before.joined) return { ...wish.existing, registered: null };
    return find(control, wish, ANCESTORS);
  }
  if (before.found) return find(control, wish, 1);
  if (wish.named !== null && isOwn(wish)) await awaitProcess(control, wish.named);
  try {
    return await register(control, wish);
  } catch (error) {
    // The process is a principal already, by `plimsoll run`, `plimsoll adopt` or another part of the program.
    if (isRefusal(error, 'AlreadyRegistered') && isOwn(wish)) return find(control, wish, 1);
    throw error;
  }
}

/**
 * Whether it is for this process and not a child of another principal.
 *
 * @param {Wish} wish
 */
function isOwn(wish) {
  return wish.register.pid === process.pid && wish.parent === null;
}

/**
 * @param {Connection} control
 * @returns {Promise<Listed[]>}
 */
async function list(control) {
  return readListing(await control.call('io.plimsoll.List'));
}

/**
 * Waits until the principal has its process. `plimsoll run` tells the broker the process only after the
 * start, and a program that registered before that would become a second principal.
 *
 * @param {Connection} control
 * @param {number} id
 */
async function awaitProcess(control, id) {
  for (let looks = 0; looks < LOOKS; looks++) {
    const named = (await list(control)).find((principal) => principal.id === id);
    if (named === undefined || named.kind === 'group' || named.pid !== null) return;
    await sleep(LOOK_AGAIN_MS);
  }
}

/**
 * @param {Connection} control
 * @param {Wish} wish
 * @returns {Promise<Found>}
 */
async function register(control, wish) {
  const parent = wish.parent?.();
  if (parent === null) {
    const message = 'a child of a principal needs a broker and none is there just now';
    throw new PlimsollError('PLIMSOLL_ALONE', message);
  }
  const { ownWeight, ownPriority, ...settings } = wish.settings;
  const asked = { ...wish.register, ...settings, ...given({ parent }) };
  // A maximum of 0 means none, which is an absent one here.
  const registered = readRegistered(
    await control.call('io.plimsoll.Register', { ...asked, max: asked.max || undefined }),
  );
  const own = given({ ownWeight, ownPriority });
  if (Object.keys(own).length > 0) await control.call('io.plimsoll.Set', setParameters(registered.id, own));
  return { id: registered.id, page: registered.page, registered };
}

/**
 * Tells which adapter steers a principal that another process registered, and what it is called if nobody
 * gave it a name, if its process is this one. A child that merely inherited the environment must not do so.
 *
 * @param {Connection} control
 * @param {Wish} wish
 * @param {number} id
 */
async function steer(control, wish, id) {
  const { adapter, name } = wish.register;
  const callsItself = wish.isUnnamed && wish.existing === null;
  if (!isOwn(wish) || (adapter === undefined && !callsItself)) return;
  const own = (await list(control)).find(({ pid }) => pid === process.pid);
  if (own?.id !== id) return;
  if (callsItself && own.name !== name) {
    try {
      await control.call('io.plimsoll.Adapt', { id, adapter: adapter ?? own.adapter, name });
      return;
    } catch (error) {
      // A broker that is older knows no names here.
      if (isAbsent(error)) throw error;
    }
  }
  if (adapter !== undefined && own.adapter !== adapter)
    await control.call('io.plimsoll.Adapt', { id, adapter });
}

/**
 * Finds the principal of our process or of an ancestor, up to this many `generations` away. After a broker's
 * restart the principal's number in the environment is no longer valid.
 *
 * @param {Connection} control
 * @param {Wish} wish
 * @param {number} generations
 * @returns {Promise<Found>}
 */
async function find(control, wish, generations) {
  const listed = await list(control);
  let pid = wish.register.pid ?? process.pid;
  for (let looks = 0; looks < generations && pid > 1; looks++) {
    const found = listed.find((principal) => principal.pid === pid);
    if (found !== undefined) {
      const page = found.page ?? pageOf(control.place, found.id);
      return { id: found.id, page, registered: null };
    }
    pid = parentOf(pid);
  }
  throw refused('NoSuchPrincipal', 'no principal holds this process yet; `plimsoll ps` lists them');
}

/**
 * The parent of a process; 0 if that is unknown.
 *
 * @param {number} pid
 */
function parentOf(pid) {
  try {
    const [, parent] = /^PPid:\s*(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1')) ?? [];
    return Number(parent ?? 0);
  } catch {
    return 0;
  }
}
