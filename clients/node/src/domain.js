/**
 * How much memory there is for a process: the machine's, or that of the tightest cgroup above it.
 *
 * @module
 */

import { freemem, totalmem } from 'node:os';
import { groupsAbove } from './cgroup.js';
import { atLeastZero } from './numbers.js';
import { KernelFile, pairs } from './proc.js';

/** After this many reads the groups above are looked up again, because a process can be moved. */
const READS_PER_SCAN = 256;

/**
 * @typedef {{ capacity: number, room: number }} Capacity bytes that there are, and bytes of them that are
 *   free or can be dropped for free
 */

/**
 * The machine's memory from the text of `/proc/meminfo`. Never more optimistic than the kernel's own
 * estimate.
 *
 * @param {string} text
 * @returns {Capacity}
 * @throws {Error} when it is not that file
 */
export function parseMeminfo(text) {
  const meminfo = pairs(text);
  const of = (/** @type {string} */ name) => meminfo.get(name) ?? 0;
  const total = of('MemTotal');
  if (total === 0) throw new Error('/proc/meminfo has no line MemTotal');
  const files = atLeastZero(of('Inactive(file)') - of('Dirty'));
  // The kernel is reluctant to drop a half of its slabs.
  const droppable = files + of('SwapCached') + Math.floor(of('SReclaimable') / 2);
  const used = atLeastZero(total - of('MemFree') - droppable);
  // Kernels before 3.14 have no estimate.
  const available = of('MemAvailable') || total;
  return { capacity: total, room: total - Math.max(used, atLeastZero(total - available)) };
}

/** The memory that bounds one process. */
export class Domain {
  #pid;
  /** @type {KernelFile | null} */
  #meminfo = null;
  /** @type {ReturnType<typeof groupsAbove>} */
  #groups = [];
  #reads = 0;

  /** @param {number} pid */
  constructor(pid) {
    this.#pid = pid;
  }

  /**
   * Never throws: without groups it is the machine, and without `/proc` what the system tells else.
   *
   * @returns {Capacity}
   */
  read() {
    if (this.#reads++ % READS_PER_SCAN === 0) this.#scan();
    try {
      return this.#read();
    } catch {
      // A group was removed and perhaps made again, or there was no descriptor.
      this.#scan();
    }
    try {
      return this.#read();
    } catch {
      return { capacity: totalmem(), room: freemem() };
    }
  }

  /** Closes the files. The next read opens them again. */
  close() {
    for (const group of this.#groups) group.close();
    this.#meminfo?.close();
    this.#groups = [];
    this.#meminfo = null;
    this.#reads = 0;
  }

  #scan() {
    for (const group of this.#groups) group.close();
    this.#groups = [];
    for (const pid of new Set([this.#pid, process.pid])) {
      try {
        this.#groups = groupsAbove(pid);
        return;
      } catch {
        // It is gone or hidden: our own groups are the nearest that we know.
      }
    }
    this.#reads = 0;
  }

  #read() {
    this.#meminfo ??= new KernelFile('/proc/meminfo');
    const machine = parseMeminfo(this.#meminfo.text());
    let tightest = machine;
    for (const group of this.#groups) {
      const limit = group.limit();
      if (limit === null || limit >= machine.capacity) continue;
      const usage = group.usage();
      // A group that is far from its limit even with all its caches cannot bind.
      if (limit - usage > tightest.room) continue;
      const room = atLeastZero(limit - atLeastZero(usage - group.droppable()));
      if (room <= tightest.room) tightest = { capacity: limit, room };
    }
    return tightest;
  }
}
