/**
 * The places of a broker's socket, and whether to trust it.
 *
 * @module
 */

import { lstatSync, statSync } from 'node:fs';
import { dirname, isAbsolute, join } from 'node:path';
import { variable } from './environment.js';
import { causeOf, PlimsollError } from './errors.js';

/** The system broker's socket. */
const SYSTEM = '/run/plimsoll/broker.sock';
/** Longest path of a socket (`sun_path`), bytes. Some versions of Node cut a longer one off. */
const MAX_PATH = 107;
/** Rights of the group and of others. */
const RIGHTS = { any: 0o077, write: 0o022, pass: 0o001 };

/**
 * A place where a broker may listen. `owner`: the user who has to own the directory and run the broker; null
 * where the protection of the directory is enough.
 *
 * @typedef {{ path: string, owner: number | null }} Place
 *
 * @typedef {object} Surroundings the usual places depend on these
 * @property {string} [socket] `PLIMSOLL_SOCKET`
 * @property {string} [runtimeDir] `XDG_RUNTIME_DIR`, if it is the user's own
 * @property {string} [home] `HOME`, if it is the user's own
 * @property {number} uid the real user
 */

/** @returns {Surroundings} those of this process */
export function surroundings() {
  const uid = process.getuid?.() ?? -1;
  const own = (/** @type {string} */ name) => {
    const directory = variable(name);
    return directory !== undefined && isOwnDirectory(directory, uid) ? directory : undefined;
  };
  return {
    socket: variable('PLIMSOLL_SOCKET'),
    runtimeDir: own('XDG_RUNTIME_DIR'),
    home: own('HOME'),
    uid,
  };
}

/**
 * The places, in the order to try them. Only `PLIMSOLL_SOCKET` if it is set; else the user's broker, then the
 * system's.
 *
 * @param {Surroundings} around
 * @returns {Place[]}
 */
export function candidates({ socket, runtimeDir, home, uid }) {
  if (socket !== undefined) return [{ path: socket, owner: null }];
  const directories = [`/run/user/${uid}/plimsoll`, `/tmp/plimsoll-${uid}`];
  if (runtimeDir !== undefined) directories.unshift(join(runtimeDir, 'plimsoll'));
  // Where the broker goes if another user took the places before.
  if (home !== undefined) directories.push(join(home, '.cache/plimsoll'));
  const places = [...new Set(directories)].map((directory) => ({
    path: join(directory, 'broker.sock'),
    owner: uid,
  }));
  return [...places, { path: SYSTEM, owner: null }];
}

/**
 * The path of a principal's page, for a broker that does not tell it.
 *
 * @param {Place} place
 * @param {number} id
 */
export function pageOf(place, id) {
  return join(dirname(place.path), 'pages', String(id));
}

/**
 * Checks the path of a socket, and where it has an owner, its directory and whose it is. Where everybody may
 * write, anybody could create it first. Node does not tell who is at the other end of a connection. But only
 * the owner (and root) may put a socket into the directory, so the owner of the socket tells.
 *
 * @param {Place} place
 * @throws {PlimsollError} `PLIMSOLL_UNTRUSTED`, or `PLIMSOLL_SOCKET` when there is none
 */
export function checkPlace({ path, owner }) {
  const length = Buffer.byteLength(path);
  if (length === 0 || length > MAX_PATH) {
    const why = `the path of a socket has 1 to ${MAX_PATH} bytes, this one has ${length}`;
    throw new PlimsollError('PLIMSOLL_SOCKET', `cannot connect to ${path}: ${why}`);
  }
  if (owner === null) return;
  const directory = dirname(path);
  const found = look(directory);
  const rights = isReachable(directory) ? RIGHTS.any : RIGHTS.write;
  if (!found.isDirectory()) throw untrusted(directory, 'it is not a directory');
  if (found.uid !== owner) throw untrusted(directory, `it belongs to user ${found.uid}`);
  if ((found.mode & rights) !== 0) throw untrusted(directory, 'others than its owner may use it');
  const { uid } = look(path);
  if (uid !== owner && uid !== 0) throw untrusted(path, `user ${uid} listens there`);
}

/**
 * @param {string} path
 * @param {string} why
 */
function untrusted(path, why) {
  const message = `${path} is not to be trusted: ${why}; remove it or set PLIMSOLL_SOCKET`;
  return new PlimsollError('PLIMSOLL_UNTRUSTED', message);
}

/** @param {string} path */
function look(path) {
  try {
    return lstatSync(path);
  } catch (error) {
    throw new PlimsollError('PLIMSOLL_SOCKET', `cannot look at ${path}: ${causeOf(error)}`, { cause: error });
  }
}

/**
 * Whether other users can reach a directory.
 *
 * @param {string} directory
 */
function isReachable(directory) {
  try {
    return (statSync(dirname(directory)).mode & RIGHTS.pass) !== 0;
  } catch {
    return true;
  }
}

/**
 * Whether a directory of the environment belongs to this user. `su` and `sudo -E` leave the previous user's.
 *
 * @param {string} directory
 * @param {number} uid
 */
function isOwnDirectory(directory, uid) {
  try {
    return isAbsolute(directory) && statSync(directory).uid === uid;
  } catch {
    return false;
  }
}
