/** A principal does not keep its process alive, leaks nothing, and bears what happens to the process. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, copyFileSync, cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Connection } from '../src/connection.js';
import { isAbsent } from '../src/errors.js';
import { now, Principal } from '../src/index.js';
import { numbers } from './support/fake.js';
import { Child, descriptors, eventually, fakeFor, folder, nodeChild, program } from './support/shared.js';

test('the clock is CLOCK_MONOTONIC', (t) => {
  const told = 'import time; print(time.clock_gettime_ns(time.CLOCK_MONOTONIC))';
  let between;
  const before = now();
  try {
    between = Number(execFileSync('python3', ['-c', told]));
  } catch {
    return t.skip('there is no python3 to compare with');
  }
  assert.ok(before <= between && between <= now());
});

test('a program ends although its principal is open', async (t) => {
  const fake = await fakeFor(t);
  const joined = nodeChild(t, 'child.js', ['ends', fake.socket]);
  assert.equal(await joined.line('source '), 'broker');
  assert.equal(await joined.ended, 0, joined.output);
  await eventually('the broker sees the end', () => fake.gone.length === 1);
  const alone = nodeChild(t, 'child.js', ['ends', join(folder(t), 'none')]);
  assert.equal(await alone.line('source '), 'local');
  assert.equal(await alone.ended, 0, alone.output);
});

test('opening is waited for, however slow the broker is', async (t) => {
  const fake = await fakeFor(t, 'late');
  fake.lateMs = 200;
  const child = nodeChild(t, 'child.js', ['ends', fake.socket]);
  assert.equal(await child.line('source '), 'broker');
  assert.equal(await child.ended, 0, child.output);
});

test('a program lives by its events if it says so', async (t) => {
  const fake = await fakeFor(t);
  const child = nodeChild(t, 'child.js', ['lives', fake.socket]);
  await child.line('event joined');
  await fake.kill();
  await child.line('event brokerLost');
  assert.equal(await child.ended, 0, child.output);
});

test('a listener that throws is the program’s fault and not the broker’s', async (t) => {
  const fake = await fakeFor(t);
  const child = nodeChild(t, 'child.js', ['throws', fake.socket]);
  assert.equal(await child.line('thrown '), 'mine');
  fake.publish(1, numbers(7));
  assert.equal(await child.line('changed '), 'broker null');
  assert.equal(await child.ended, 0, child.output);
});

test('without descriptors it senses, and joins when there are some', async (t) => {
  const fake = await fakeFor(t);
  const args = [process.execPath, program('child.js'), 'exhausted', fake.socket];
  const child = new Child(t, 'sh', ['-c', 'ulimit -n 64; exec "$@"', 'sh', ...args]);
  assert.equal(await child.line('full '), 'EMFILE');
  assert.equal(await child.line('source '), 'local true');
  assert.equal(await child.line('joined '), 'broker');
  await child.line('full again');
  await fake.kill();
  assert.equal(await child.line('lost '), 'local true');
  await fakeFor(t, 'good', fake.directory);
  assert.equal(await child.line('back '), 'broker');
  assert.equal(await child.ended, 0, child.output);
});

test('a process that was stopped takes the answer that came meanwhile', async (t) => {
  const fake = await fakeFor(t);
  const child = nodeChild(t, 'child.js', ['stopped', fake.socket]);
  await child.line('event joined');
  fake.script = 'late';
  fake.lateMs = 500;
  await child.line('calls');
  await eventually('the call is there', () => fake.calls > 2);
  child.process.kill('SIGSTOP');
  await sleep(4000);
  fake.script = 'good';
  child.process.kill('SIGCONT');
  assert.equal(await child.line('answered '), 'broker null');
  assert.equal(await child.line('later '), 'broker');
  assert.equal(await child.ended, 0, child.output);
  assert.ok(!child.output.includes('brokerLost'), child.output);
});

test('a full queue of connections is waited for, and not for ever', async (t) => {
  const path = join(folder(t), 's');
  const child = nodeChild(t, 'child.js', ['deaf', path]);
  await child.line('listens');
  child.process.kill('SIGSTOP');
  const held = [];
  t.after(() => held.map((connection) => connection.close()));
  const fill = async () => {
    for (let count = 0; count < 10_000; count++) held.push(await Connection.open({ path, owner: null }, 30));
  };
  await assert.rejects(fill(), (error) => isAbsent(error) && error.message.includes('EAGAIN'));
});

test('a hundred principals leave nothing behind', async (t) => {
  const fake = await fakeFor(t);
  const comeAndGo = async () => {
    const principal = await Principal.open('leaks', { socket: fake.socket, timeoutMs: 60_000 });
    assert.equal(principal.read().source, 'broker');
    assert.equal((await principal.wait(1000)).type, 'joined');
    principal.close();
  };
  await comeAndGo();
  await eventually('it ended', () => fake.gone.length === 1);
  const before = descriptors();
  for (let count = 0; count < 100; count++) await comeAndGo();
  await eventually('all ended', () => fake.gone.length === 101);
  await eventually('all descriptors are closed', () => descriptors() <= before);
  const timers = process.getActiveResourcesInfo().filter((name) => name === 'Timeout');
  assert.ok(timers.length <= 3, `${timers.length} timers`);
});

test('a program with more rights than who started it trusts no variable', async (t) => {
  if (process.getuid() !== 0) return t.skip('another user needs root');
  const directory = mkdtempSync('/var/tmp/plimsoll-node-');
  t.after(() => rmSync(directory, { recursive: true }));
  chmodSync(directory, 0o755);
  const [copy, runtime] = [join(directory, 'node'), join(directory, 'runtime')];
  copyFileSync(process.execPath, copy);
  mkdirSync(runtime);
  chownSync(runtime, 65534, 65534);
  const package_ = fileURLToPath(new URL('..', import.meta.url));
  for (const name of ['src', 'test', 'package.json']) {
    cpSync(join(package_, name), join(directory, name), { recursive: true });
  }
  const user = ['--reuid=65534', '--regid=65534', '--clear-groups', '--inh-caps=-all'];
  const told = () => {
    const args = [...user, copy, join(directory, 'test/support/child.js'), 'trusts'];
    const env = { PLIMSOLL_SOCKET: '/named/broker.sock', XDG_RUNTIME_DIR: runtime };
    return execFileSync('setpriv', args, { env, encoding: 'utf8' }).trim();
  };
  assert.equal(told(), `trusts /named/broker.sock ${runtime} 1`);
  try {
    execFileSync('setcap', ['cap_net_bind_service+ep', copy], { stdio: 'ignore' });
  } catch {
    return t.diagnostic('skipped in part: files have no capabilities here');
  }
  assert.match(told(), /^trusts undefined undefined/);
});
