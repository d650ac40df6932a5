/** With the real broker: joins, gets its share, survives the broker's death by SIGKILL, and joins again. */

import assert from 'node:assert/strict';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { Broker, BUDGET_MIB, PLIMSOLLD, SKIP } from './support/real.js';
import { awaitEvent, Child, eventually, folder, MIB, openFor, program } from './support/shared.js';

const sleeper = (t) => new Child(t, 'sleep', ['600']);

function openOf(t, broker, child, options = {}) {
  const { pid } = child.process;
  return openFor(t, 'real', { socket: broker.socket, pid, timeoutMs: 60_000, ...options });
}

test('joins, survives and rejoins', { skip: SKIP }, async (t) => {
  const broker = await new Broker(t).start();
  const light = await openOf(t, broker, sleeper(t), { weight: 10 });
  const heavy = await openOf(t, broker, sleeper(t), { weight: 30 });
  const both = [light, heavy];
  for (const principal of both) await awaitEvent(principal, 'joined');
  const shares = () => both.map((principal) => principal.read().share);
  await eventually('shares are by weight', () => {
    const [one, other] = shares();
    return one > 0 && Math.abs(other - one * 3) <= 4096 * 3;
  });
  const sum = light.read().limit + heavy.read().limit;
  assert.ok(sum > 0 && sum <= BUDGET_MIB * MIB, `${sum}`);
  await light.set({ weight: 30 });
  await eventually('a new weight counts', () => Math.abs(shares()[0] - shares()[1]) <= 4096);
  await heavy.set({ max: 20 * MIB, priority: 5 });
  await eventually('a maximum counts', () => heavy.read().available <= 20 * MIB);
  await heavy.set({ max: 0, priority: 0 });
  await eventually('it is gone', () => heavy.read().available > 20 * MIB);

  await broker.kill();
  for (const principal of both) await awaitEvent(principal, 'brokerLost');
  assert.deepEqual(
    both.map((principal) => principal.read().source),
    ['local', 'local'],
  );
  await broker.start();
  for (const principal of both) await awaitEvent(principal, 'joined');
  await eventually('with what they were given last', async () => {
    const weights = (await broker.list()).map(({ weight }) => weight);
    return weights.length === 2 && weights.every((weight) => weight === 30);
  });
  light.close();
  await eventually('one is gone', async () => (await broker.list()).length === 1);
});

test('children share what their parent gets', { skip: SKIP }, async (t) => {
  const broker = await new Broker(t).start();
  const parent = await openOf(t, broker, sleeper(t), { adapter: 'self' });
  await awaitEvent(parent, 'joined');
  await parent.set({ ownWeight: 1 });
  const children = [];
  for (const weight of [100, 300]) {
    const child = await parent.child('child', { weight, pid: sleeper(t).process.pid });
    t.after(() => child.close());
    await awaitEvent(child, 'joined');
    children.push(child);
  }
  await eventually('by weight', () => {
    const [one, other] = children.map((child) => child.read().share);
    return one > 0 && Math.abs(other - one * 3) <= 4096 * 3;
  });
  const [{ children: below }] = await broker.list();
  assert.deepEqual(
    below.map(({ weight }) => weight),
    [100, 300],
  );
  await broker.kill();
  for (const child of children) await awaitEvent(child, 'brokerLost');
  await broker.start();
  for (const child of children) await awaitEvent(child, 'joined');
  await eventually('below their parent again', async () => (await broker.list())?.[0]?.children.length === 2);
});

test('a report counts', { skip: SKIP }, async (t) => {
  const broker = await new Broker(t).start();
  const child = sleeper(t);
  const principal = await openOf(t, broker, child);
  await awaitEvent(principal, 'joined');
  principal.report({ demand: 77 * MIB, live: 5 * MIB, collections: 3, collectionMs: 12.5 });
  await eventually('it is shown', async () => {
    const { demand, live, collections, collection_ms: ms } = await broker.of(child);
    return demand === 77 * MIB && live === 5 * MIB && collections === 3 && ms === 12;
  });
  assert.equal(principal.lastError, null);
});

test('under `plimsoll run` the program is the principal, and steers itself', { skip: SKIP }, async (t) => {
  const broker = await new Broker(t).start();
  const plimsoll = join(dirname(PLIMSOLLD), 'plimsoll');
  const args = ['run', '--weight', '42', '--', process.execPath, program('child.js'), 'lives', broker.socket];
  const env = { ...process.env, PLIMSOLL_SOCKET: broker.socket };
  const run = new Child(t, plimsoll, args, { env, cwd: folder(t) });
  await run.line('event joined');
  await eventually('it is one principal, with its own name', async () => {
    const [first, ...others] = await broker.list();
    const { weight, adapter, name } = first ?? {};
    return others.length === 0 && weight === 42 && adapter === 'self' && name === 'child';
  });
  run.process.kill('SIGTERM');
  await run.ended;
});
