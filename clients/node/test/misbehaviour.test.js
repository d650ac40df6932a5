/** Brokers that hang, lie, send nonsense or very much, cut connections off, or lose their pages. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Principal } from '../src/index.js';
import { numbers, pageBytes } from './support/fake.js';
import { awaitEvent, eventually, fakeFor, MIB, numbersOf, openAt } from './support/shared.js';

test('a broker that hangs is left after a while and blocks nobody', async (t) => {
  const fake = await fakeFor(t);
  const principal = await openAt(t, fake, { timeoutMs: 200 });
  await awaitEvent(principal, 'joined');
  fake.freeze();
  await principal.set({ weight: 5 });
  const { reading } = await awaitEvent(principal, 'brokerLost');
  assert.equal(reading.source, 'local');
  principal.report({ live: 1 });
  principal.released(1);
  principal.read();
});

test('a broker whose heart stops is noticed without a call', async (t) => {
  const fake = await fakeFor(t);
  const principal = await openAt(t, fake, { timeoutMs: 300 });
  await awaitEvent(principal, 'joined');
  fake.freeze();
  await eventually('it is stale or gone', () => principal.read().source !== 'broker');
  await awaitEvent(principal, 'brokerLost');
  assert.equal(principal.read().source, 'local');
});

test('a page that grows old under a living broker is replaced by the connection', async (t) => {
  const fake = await fakeFor(t);
  const principal = await openAt(t, fake);
  await awaitEvent(principal, 'joined');
  fake.isFrozen = true;
  const first = principal.read().heartbeat;
  await eventually('the heartbeat is fresh again', () => principal.read().heartbeat > first + 2e9);
  assert.equal(principal.read().source, 'broker');
  assert.equal(principal.read().limit, 100 * MIB);
  fake.publish(1, numbers(50 * MIB));
  await eventually('the connection tells', () => principal.read().limit === 50 * MIB);
});

for (const script of ['silent', 'late', 'truncated', 'diesAfterRegister']) {
  test(`a broker that is ${script} costs a timeout at the most`, async (t) => {
    const fake = await fakeFor(t, script);
    fake.lateMs = 2000;
    const principal = await openAt(t, fake, { timeoutMs: 100 });
    await eventually('it is alone, and says why', () => {
      const said = /did not answer|closed|ECONNRESET/.test(principal.lastError?.message);
      return said && principal.read().source === 'local';
    });
    fake.script = 'good';
    const { reading } = await awaitEvent(principal, ({ type }) => type === 'joined');
    assert.equal(reading.limit, 100 * MIB);
  });
}

for (const script of ['garbage', 'endless', 'wrongTypes', 'chatty', 'refuses']) {
  test(`a broker that is ${script} is named`, async (t) => {
    const fake = await fakeFor(t, script);
    const opening = Principal.open('test', { socket: fake.socket, timeoutMs: 60_000 });
    const expected = script === 'refuses' ? /raise max_principals/ : /against the protocol/;
    await assert.rejects(opening, expected);
  });
}

test('a late answer in time is taken', async (t) => {
  const fake = await fakeFor(t, 'late');
  fake.lateMs = 100;
  const principal = await openAt(t, fake);
  assert.equal(principal.read().source, 'broker');
});

for (const script of ['noPage', 'shortPage', 'wrongVersion', 'wrongId', 'pipePage']) {
  test(`without a usable page (${script}) the connection tells the numbers`, async (t) => {
    const fake = await fakeFor(t, script);
    if (script === 'pipePage') execFileSync('mkfifo', [join(fake.directory, 'pipe')]);
    const principal = await openAt(t, fake);
    assert.deepEqual(numbersOf(principal.read()), numbers(100 * MIB));
    assert.equal(principal.read().source, 'broker');
    assert.equal(principal.lastError.code, 'PLIMSOLL_PAGE');
    fake.publish(1, numbers(30 * MIB));
    await awaitEvent(principal, ({ reading }) => reading.limit === 30 * MIB);
    assert.equal(principal.read().limit, 30 * MIB);
  });
}

test('a replaced page changes nothing', async (t) => {
  const fake = await fakeFor(t);
  const principal = await openAt(t, fake);
  rmSync(fake.page(1));
  writeFileSync(fake.page(1), Buffer.alloc(4096, 0xff));
  fake.publish(1, numbers(40 * MIB));
  assert.equal(principal.read().limit, 40 * MIB);
  assert.equal(principal.read().source, 'broker');
});

test('a truncated page is left for the connection', async (t) => {
  const fake = await fakeFor(t);
  const principal = await openAt(t, fake);
  for (const length of [50, 0, 4096]) {
    truncateSync(fake.page(1), length);
    assert.equal(principal.read().limit, 100 * MIB);
  }
  await eventually('it says so', () => principal.lastError?.code === 'PLIMSOLL_PAGE');
  const numbersOfThen = numbers(20 * MIB);
  fake.pages.get(1).close();
  fake.publish(1, numbersOfThen);
  await awaitEvent(principal, ({ reading }) => reading.limit === 20 * MIB);
  assert.equal(principal.read().limit, 20 * MIB);
});

test('a page that becomes one of a newer version is left for the connection', async (t) => {
  const fake = await fakeFor(t);
  const principal = await openAt(t, fake);
  fake.pages.get(1).version = 2;
  fake.publish(1, numbers(20 * MIB));
  await eventually('it says so', () => principal.lastError?.code === 'PLIMSOLL_PAGE');
  assert.equal(principal.read().limit, 20 * MIB);
});

test('a writer that died while it wrote leaves the last numbers', async (t) => {
  const fake = await fakeFor(t);
  const principal = await openAt(t, fake);
  fake.isFrozen = true;
  fake.pages.get(1).sequence = 2;
  fake.pages.get(1).close();
  const told = numbers(5 * MIB);
  const odd = pageBytes({ id: 1, sequence: 3, numbers: told, heartbeat: 1, generation: 2 });
  writeFileSync(fake.page(1), Buffer.concat([odd, Buffer.alloc(4096 - odd.length)]));
  assert.equal(principal.read().limit, 100 * MIB);
});

test('numbers that no machine has are clamped, and times are not', async (t) => {
  const fake = await fakeFor(t);
  const principal = await openAt(t, fake);
  await awaitEvent(principal, 'joined');
  const huge = { owed: 2 ** 63, deadline: 2 ** 60, uses: 2 ** 64 - 2048, level: 'critical' };
  fake.publish(1, numbers(2 ** 62, huge));
  const { reading } = await awaitEvent(principal, 'owed');
  for (const { limit, available, owed, uses, deadline } of [reading, principal.read()]) {
    assert.deepEqual([limit, available, owed, uses], Array(4).fill(Number.MAX_SAFE_INTEGER));
    assert.equal(deadline, 2 ** 60);
  }
});

test('a stream of nonsense or of megabytes ends the connection and nothing else', async (t) => {
  const fake = await fakeFor(t);
  const principal = await openAt(t, fake);
  await awaitEvent(principal, 'joined');
  const nonsense = [
    Buffer.from('{"parameters":{}}\0'),
    Buffer.from('\0'),
    Buffer.from('[1]\0'),
    Buffer.from('null\0'),
    Buffer.from('{"parameters":{"id":1,"generation":1,"numbers":{"limit":-1}},"continues":true}\0'),
    Buffer.from('{"error":"io.plimsoll.NoSuchPrincipal"}\0'),
    Buffer.from(`${'['.repeat(60_000)}\0`),
    Buffer.alloc(20 * MIB, '['),
  ];
  for (const bytes of nonsense) {
    fake.sendAll(bytes);
    await awaitEvent(principal, 'brokerLost');
    await awaitEvent(principal, 'joined');
  }
});

test('a broker that tells very many changes tells the last', async (t) => {
  const fake = await fakeFor(t);
  const principal = await openAt(t, fake);
  for (let change = 1; change <= 20_000; change++) fake.publish(1, numbers(MIB + change));
  await awaitEvent(principal, ({ reading }) => reading.limit === MIB + 20_000);
});

test('very deep listings do not overflow the stack', async (t) => {
  const fake = await fakeFor(t, 'strict');
  await openAt(t, fake);
  fake.script = 'deep';
  process.env.PLIMSOLL_ID = '7';
  t.after(() => delete process.env.PLIMSOLL_ID);
  const principal = await openAt(t, fake, { pid: process.pid });
  assert.equal(principal.read().source, 'broker');
});

test('an older broker gets reports without worth', async (t) => {
  const fake = await fakeFor(t, 'old');
  const principal = await openAt(t, fake);
  await awaitEvent(principal, 'joined');
  principal.report({ demand: 5, worth: 7 });
  await eventually('it is told the rest', () => fake.reports.length === 2);
  principal.report({ live: 3, worth: 8 });
  await eventually('it is told more', () => fake.reports.length === 3);
  const old = { id: 1, demand: 5 };
  assert.deepEqual(fake.reports, [{ ...old, worth: 7 }, old, { ...old, live: 3 }]);
  assert.equal(principal.lastError, null);
  fake.script = 'good';
  fake.sendAll(Buffer.from('nonsense\0'));
  await awaitEvent(principal, 'brokerLost');
  await eventually('a newer one is told all', () => fake.reports.at(-1).worth === 8);
});
