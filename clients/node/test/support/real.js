/** A real broker, whose path is in `PLIMSOLLD`. */

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { Connection } from '../../src/connection.js';
import { Child, eventually, folder, PATIENCE_MS } from './shared.js';

export const PLIMSOLLD = process.env.PLIMSOLLD;
/** Why tests with a real broker are skipped; false if they are not. */
export const SKIP = PLIMSOLLD === undefined && 'PLIMSOLLD does not name a broker (target/release/plimsolld)';
/** It shares out as much, MiB. */
export const BUDGET_MIB = 256;

/** A broker that serves one test. */
export class Broker {
  constructor(t) {
    this.t = t;
    // A broker that is killed leaves its pages and cgroups to the next one, so the last one is ended.
    t.after(() => this.#end('SIGTERM'));
    this.directory = join(folder(t), 'broker');
    this.socket = join(this.directory, 'broker.sock');
    mkdirSync(this.directory, { recursive: true, mode: 0o700 });
  }

  async start() {
    this.child = new Child(this.t, PLIMSOLLD, ['--directory', this.directory, '--budget', `${BUDGET_MIB}M`]);
    await eventually('the broker answers', async () => (await this.list()) !== null);
    return this;
  }

  /** The principals at the top; null if it does not answer. */
  async list() {
    let connection = null;
    try {
      connection = await Connection.open({ path: this.socket, owner: null }, PATIENCE_MS);
      return (await connection.call('io.plimsoll.List')).principals;
    } catch {
      return null;
    } finally {
      connection?.close();
    }
  }

  /** The principal of a process. */
  async of({ process: { pid } }) {
    return (await this.list())?.find((principal) => principal.pid === pid) ?? null;
  }

  /** Dies by SIGKILL. */
  async kill() {
    await this.#end('SIGKILL');
  }

  async #end(signal) {
    this.child?.process.kill(signal);
    await this.child?.ended;
  }
}
