/** Functions that several tests use. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Principal } from '../../src/index.js';
import { Fake } from './fake.js';

export const MIB = 2 ** 20;
/** Long enough for a busy machine, ms. */
export const PATIENCE_MS = 60_000;

/** The cases of a file of `clients/vectors`. */
export function cases(name) {
  const file = new URL(`../../../vectors/${name}.json`, import.meta.url);
  return JSON.parse(readFileSync(file, 'utf8')).cases;
}

/** A folder that is gone after the test. */
export function folder(t) {
  const path = mkdtempSync(join(tmpdir(), 'plimsoll-node-'));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** A scripted broker that is gone after the test. */
export async function fakeFor(t, script = 'good', directory = folder(t), firstId = 1) {
  const fake = await Fake.start(directory, script, firstId);
  t.after(() => fake.kill().catch(() => {}));
  return fake;
}

/** A principal that is closed after the test. */
export async function openFor(t, name, options) {
  const principal = await Principal.open(name, options);
  t.after(() => principal.close());
  return principal;
}

/** A principal of that scripted broker. It answers; any delay comes from a busy machine. */
export function openAt(t, fake, options = {}) {
  return openFor(t, 'test', { socket: fake.socket, adapter: null, timeoutMs: PATIENCE_MS, ...options });
}

/** Waits until `done`. */
export async function eventually(what, done) {
  const end = Date.now() + PATIENCE_MS;
  while (!(await done())) {
    assert.ok(Date.now() < end, `never happened: ${what}`);
    await sleep(5);
  }
}

/** The next event of this type, or for which `wanted` holds; others are skipped. */
export async function awaitEvent(principal, wanted) {
  const is = typeof wanted === 'string' ? ({ type }) => type === wanted : wanted;
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const event = await principal.wait(PATIENCE_MS);
    if (is(event)) return event;
    assert.ok(Date.now() < end, `the last event was ${event.type}: ${principal.lastError}`);
  }
}

/** The numbers without their source. */
export function numbersOf({ source: _, heartbeat: __, generation: ___, ...numbers }) {
  return numbers;
}

/** Open descriptors of this process. */
export function descriptors() {
  return readdirSync('/proc/self/fd').length;
}

/** The path of a program beside these files. */
export function program(name) {
  return fileURLToPath(new URL(name, import.meta.url));
}

/** A process of this test that prints JSON lines; it is killed after the test. */
export class Child {
  lines = [];
  output = '';

  constructor(t, command, args, options = {}) {
    this.process = spawn(command, args, { stdio: ['pipe', 'pipe', 'pipe'], ...options });
    this.ended = once(this.process, 'close').then(([code, signal]) => code ?? signal);
    for (const stream of [this.process.stdout, this.process.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => {
        this.output += text;
        this.lines = this.output.split('\n').slice(0, -1);
      });
    }
    t.after(async () => {
      this.process.kill('SIGKILL');
      await this.ended;
    });
  }

  /** Waits for a line with this beginning; the rest of it. */
  async line(beginning) {
    let found;
    await eventually(`a line ${beginning}`, () => {
      found = this.lines.find((line) => line.startsWith(beginning));
      assert.ok(found !== undefined || this.process.exitCode === null, this.output);
      return found !== undefined;
    });
    return found.slice(beginning.length);
  }
}

/** A child that runs a program beside these files. */
export function nodeChild(t, name, args = [], options = {}) {
  return new Child(t, process.execPath, [program(name), ...args], options);
}
