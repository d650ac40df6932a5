/**
 * The memory cgroups above a process, of version 1 or 2.
 *
 * @module
 */

import { closeSync, existsSync, openSync, readFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { atLeastZero } from './numbers.js';
import { KernelFile, pairs } from './proc.js';

/** Version 1 shows "no limit" as the largest number of whole pages. From here on (bytes), a limit is none. */
const NO_LIMIT = 2 ** 62;
/** Deepest tree of groups that is walked. */
const MAX_DEPTH = 64;

/** The names of the files of both versions. */
const FILES = {
  1: { limit: 'memory.limit_in_bytes', usage: 'memory.usage_in_bytes' },
  2: { limit: 'memory.max', usage: 'memory.current' },
};

/**
 * A mounted hierarchy that may have the memory controller.
 *
 * @typedef {{ id: string, version: 1 | 2, root: string, point: string }} Mount
 */

/** A memory cgroup whose files are open. */
class Cgroup {
  /** Whether its limit binds its children too. */
  isHierarchical;
  #version;
  /** @type {KernelFile[]} */
  #files = [];

  /**
   * @param {1 | 2} version
   * @param {string} directory
   */
  constructor(version, directory) {
    this.#version = version;
    this.isHierarchical = version === 2 || countsChildren(directory);
    const { limit, usage } = FILES[version];
    // The top group of version 2 has no limit and no usage.
    if (!existsSync(join(directory, limit))) return;
    try {
      for (const name of [limit, usage, 'memory.stat']) {
        this.#files.push(new KernelFile(join(directory, name)));
      }
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /** Bytes; null if it has none. */
  limit() {
    const limit = Number(this.#files[0]?.text() ?? Number.NaN);
    return limit < NO_LIMIT ? limit : null;
  }

  /** Bytes that are charged to it, page cache too. */
  usage() {
    return Number(this.#files[1]?.text());
  }

  /**
   * Bytes that the kernel can free without writing anything, and that no process uses: clean inactive file
   * pages, and those pages of the swap cache that no process has mapped.
   */
  droppable() {
    const stat = pairs(this.#files[2]?.text() ?? '');
    const totals = this.#version === 1 && this.isHierarchical ? 'total_' : '';
    const of = (/** @type {string} */ name) => stat.get(totals + name) ?? 0;
    const [dirty, anon] = this.#version === 1 ? ['dirty', 'rss'] : ['file_dirty', 'anon'];
    const files = atLeastZero(of('inactive_file') - of(dirty));
    const listed = of('inactive_anon') + of('active_anon');
    const unmapped = atLeastZero(listed - of('shmem') - of(anon));
    return files + Math.min(of('swapcached'), unmapped);
  }

  close() {
    for (const file of this.#files.splice(0)) file.close();
  }
}

/**
 * The groups whose limits bind a process, innermost first. None where no memory controller is visible.
 *
 * @param {number} pid
 * @returns {Cgroup[]}
 * @throws {Error} when they cannot be read
 */
export function groupsAbove(pid) {
  const found = locate(
    readFileSync(`/proc/${pid}/cgroup`, 'utf8'),
    parseMounts(readFileSync('/proc/self/mountinfo', 'utf8')).filter(isVisible),
    hasMemory,
  );
  /** @type {Cgroup[]} */
  const groups = [];
  if (found === null) return groups;
  try {
    for (let { directory } = found; groups.length < MAX_DEPTH; directory = dirname(directory)) {
      const group = new Cgroup(found.version, directory);
      if (groups.length > 0 && !group.isHierarchical) {
        group.close();
        break;
      }
      groups.push(group);
      if (directory === found.top) break;
    }
    return groups;
  } catch (error) {
    for (const group of groups) group.close();
    throw error;
  }
}

/**
 * Picks the hierarchy that has the memory controller, and the group's directory in it: below the first mount
 * that shows it.
 *
 * @param {string} membership `/proc/PID/cgroup`
 * @param {Mount[]} mounts
 * @param {(mount: Mount) => boolean} hasMemory whether a mount of version 2 has the controller
 * @returns {{ version: 1 | 2, directory: string, top: string } | null}
 */
export function locate(membership, mounts, hasMemory) {
  const names = parseMembership(membership);
  for (const mount of mounts) {
    const name = names[mount.version];
    if (name === undefined || (mount.version === 2 && !hasMemory(mount))) continue;
    const below = posix.relative(mount.root, name);
    // A mount that begins above our namespace (`/..`) does not tell where our group is.
    if (below.startsWith('..') || mount.root.startsWith('/..')) continue;
    return { version: mount.version, directory: join(mount.point, below), top: mount.point };
  }
  return null;
}

/**
 * The names of a process's groups: in the hierarchy of version 1 with the memory controller, and in that of
 * version 2.
 *
 * @param {string} text
 * @returns {{ 1?: string, 2?: string }}
 */
function parseMembership(text) {
  /** @type {{ 1?: string, 2?: string }} */
  const names = {};
  for (const line of text.split('\n')) {
    const [, number, controllers, name] = /^(\d+):([^:]*):(\/.*?)(?: \(deleted\))?$/.exec(line) ?? [];
    if (number === '0' && controllers === '') names[2] = name;
    else if (controllers?.split(',').includes('memory')) names[1] = name;
  }
  return names;
}

/**
 * Parses `/proc/self/mountinfo`: `36 35 98:0 /root /point options optional... - kind source options`.
 *
 * @param {string} text
 * @returns {Mount[]}
 */
export function parseMounts(text) {
  /** @type {Mount[]} */
  const mounts = [];
  for (const line of text.split('\n')) {
    const [before = '', after = ''] = line.split(' - ');
    const [id = '', , , root = '', point = ''] = before.split(' ');
    const [kind, , options = ''] = after.split(' ');
    const isFirst = kind === 'cgroup' && options.split(',').includes('memory');
    if (!isFirst && kind !== 'cgroup2') continue;
    mounts.push({ id, version: isFirst ? 1 : 2, root: unescaped(root), point: unescaped(point) });
  }
  return mounts;
}

/** Undoes the octal escapes (`\040` is a blank), which stand for ASCII only. */
function unescaped(/** @type {string} */ path) {
  return path.replace(/\\([0-7]{3})/g, (_, code) => String.fromCharCode(Number.parseInt(code, 8)));
}

/** Whether a mount can be reached: another may lie over it. */
function isVisible(/** @type {Mount} */ mount) {
  try {
    const descriptor = openSync(mount.point, 'r');
    try {
      return (
        pairs(readFileSync(`/proc/self/fdinfo/${descriptor}`, 'utf8')).get('mnt_id') === Number(mount.id)
      );
    } finally {
      closeSync(descriptor);
    }
  } catch {
    return false;
  }
}

function hasMemory(/** @type {Mount} */ mount) {
  try {
    return readFileSync(join(mount.point, 'cgroup.controllers'), 'utf8').trim().split(' ').includes('memory');
  } catch {
    return false;
  }
}

/** Whether a group of version 1 counts its children's memory; kernels from 5.11 always do. */
function countsChildren(/** @type {string} */ directory) {
  try {
    return readFileSync(join(directory, 'memory.use_hierarchy'), 'utf8').trim() !== '0';
  } catch {
    return true;
  }
}
