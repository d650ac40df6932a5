/** Principals of a broker that behaves well, dies and comes back. */

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { PlimsollError, Principal } from '../src/index.js';
import { numbers } from './support/fake.js';
import {
  awaitEvent,
  eventually,
  fakeFor,
  folder,
  MIB,
  numbersOf,
  openAt,
  openFor,
} from './support/shared.js';

test('registers, reads and hears', async (t) => {
  const fake = await fakeFor(t);
  const options = { weight: 20, priority: 3, max: 5 * 2 ** 30, adapter: 'self' };
  const principal = await openAt(t, fake, options);
  const [asked] = fake.registered;
  assert.deepEqual(asked, { name: 'test', kind: 'process', pid: process.pid, id: 1, ...options });
  assert.equal(principal.id, 1);
  assert.equal(principal.socket, fake.socket);
  assert.equal((await principal.wait(0)).type, 'joined');
  assert.deepEqual(numbersOf(principal.read()), numbers(100 * MIB));
  assert.equal(principal.read().source, 'broker');

  // Reading needs the page only; an event needs a message.
  fake.publishSilently(1, numbers(90 * MIB));
  assert.equal(principal.read().limit, 90 * MIB);
  fake.publish(1, numbers(80 * MIB));
  const changed = await awaitEvent(principal, () => true);
  assert.deepEqual([changed.type, changed.reading.limit], ['changed', 80 * MIB]);

  const debt = numbers(60 * MIB, { owed: MIB, deadline: 77, level: 'warning' });
  fake.publish(1, debt);
  const owed = await awaitEvent(principal, () => true);
  assert.equal(owed.type, 'owed');
  assert.deepEqual(numbersOf(owed.reading), debt);
  fake.publish(1, numbers(60 * MIB));
  const relief = await awaitEvent(principal, () => true);
  assert.deepEqual([relief.type, relief.reading.owed], ['relief', 0]);
  assert.equal((await principal.wait(0)).type, 'timeout');

  principal.close();
  await eventually('the broker sees the end', () => fake.gone.includes(1));
});

test('numbers of one page stay one object until they change', async (t) => {
  const fake = await fakeFor(t);
  const principal = await openAt(t, fake);
  fake.isFrozen = true;
  assert.equal(principal.read(), principal.read());
  const before = principal.read();
  fake.publishSilently(1, numbers(33 * MIB));
  assert.notEqual(principal.read(), before);
  assert.throws(() => {
    principal.read().limit = 0;
  }, TypeError);
});

test('listeners and iterators hear the same', async (t) => {
  const fake = await fakeFor(t);
  const principal = await openAt(t, fake);
  const heard = [];
  for (const type of ['joined', 'owed', 'relief', 'changed', 'brokerLost']) {
    principal.on(type, ({ owed }) => heard.push([type, owed]));
  }
  const iterated = [];
  const iterating = (async () => {
    for await (const { type, reading } of principal.events()) iterated.push([type, reading.owed]);
  })();
  await eventually('the first event', () => heard.length === 1 && iterated.length === 1);
  fake.publish(1, numbers(10 * MIB, { owed: 5, deadline: 9 }));
  await eventually('a debt', () => heard.length === 2 && iterated.length === 2);
  principal.released(5);
  await eventually('it is paid', () => heard.length === 3 && iterated.length === 3);
  await fake.kill();
  await eventually('the broker is lost', () => heard.length === 4 && iterated.length === 4);
  const types = ['joined', 'owed', 'relief', 'brokerLost'];
  assert.deepEqual(
    [heard, iterated].map((events) => events.map(([type]) => type)),
    [types, types],
  );
  principal.close();
  await iterating;
});

test('an iterator ends by a signal, and one that is left leaves nothing', async (t) => {
  const fake = await fakeFor(t);
  const principal = await openAt(t, fake);
  const aborted = new AbortController();
  const events = principal.events({ signal: aborted.signal });
  assert.equal((await events.next()).value.type, 'joined');
  const next = events.next();
  aborted.abort();
  assert.equal((await next).done, true);
  for await (const { type } of principal.events()) {
    assert.equal(type, 'joined');
    break;
  }
  assert.equal((await principal.events({ signal: AbortSignal.abort() }).next()).done, true);
});

test('tells the broker what it is told', async (t) => {
  const fake = await fakeFor(t);
  const principal = await openAt(t, fake, { pid: null });
  principal.report({ live: 5, demand: 9.7 });
  principal.report({ collections: 6 });
  principal.released(10);
  principal.released(20);
  await principal.attach(4321);
  await principal.set({ weight: 7, max: 0 });
  await eventually('all of it arrives', () => fake.released === 30 && fake.reports.length > 0);
  assert.deepEqual(fake.reports.at(-1), { id: 1, live: 5, demand: 9, collections: 6 });
  assert.equal(fake.registered[0].pid, undefined);
  assert.deepEqual(fake.attached, [{ id: 1, pid: 4321 }]);
  assert.deepEqual(fake.sets, [{ id: 1, weight: 7, max: 0 }]);
  await assert.rejects(principal.set({ weight: 0 }), { errorName: 'io.plimsoll.BadWeight' });
  for (const wrong of [-1, Number.NaN, '5', undefined]) {
    assert.throws(() => principal.released(wrong), RangeError);
    if (wrong !== undefined) assert.throws(() => principal.report({ live: wrong }), RangeError);
  }
});

test('works alone where no broker runs', async (t) => {
  const directory = folder(t);
  const socket = join(directory, 'broker.sock');
  const principal = await openFor(t, 'alone', { socket });
  const reading = principal.read();
  assert.deepEqual([reading.source, principal.id, principal.socket], ['local', null, null]);
  assert.ok(reading.uses > 0 && reading.limit >= reading.uses - reading.owed);
  assert.ok(reading.available >= reading.limit);
  assert.match(principal.lastError.message, /no broker runs/);
  principal.released(5);
  principal.report({ live: 9 });
  await principal.set({ weight: 33, priority: -4 });

  // A broker starts, and is told everything that the program reported before.
  const fake = await fakeFor(t, 'good', directory);
  const { reading: joined } = await awaitEvent(principal, 'joined');
  assert.deepEqual(numbersOf(joined), numbers(100 * MIB));
  assert.equal(principal.read().source, 'broker');
  await eventually('the report is said again', () => fake.reports.at(-1)?.live === 9);
  assert.deepEqual([fake.registered[0].weight, fake.registered[0].priority], [33, -4]);
  assert.equal(fake.released, 0, 'what was given back before is old news');

  const never = await openFor(t, 'never', { alone: true });
  assert.equal(never.read().source, 'local');
});

test('falls back at once when the broker dies, and rejoins', async (t) => {
  const fake = await fakeFor(t);
  const principal = await openAt(t, fake, { weight: 20, adapter: 'self' });
  const child = await principal.child('child', { pid: null });
  t.after(() => child.close());
  assert.equal(fake.registered[1].parent, 1);
  for (const joined of [principal, child]) await awaitEvent(joined, 'joined');
  await principal.set({ priority: 2, ownWeight: 9 });
  await fake.kill();
  const { reading } = await awaitEvent(principal, 'brokerLost');
  assert.equal(reading.source, 'local');
  assert.ok(reading.limit <= 100 * MIB, 'the dead broker’s limit still bounds');
  assert.deepEqual([principal.read().source, principal.id], ['local', null]);
  principal.released(1);
  await awaitEvent(child, 'brokerLost');

  const next = await fakeFor(t, 'good', fake.directory, 50);
  const joined = await awaitEvent(principal, 'joined');
  assert.deepEqual(numbersOf(joined.reading), numbers(100 * MIB));
  await awaitEvent(child, 'joined');
  const [asked, below] = next.registered;
  assert.deepEqual([asked.weight, asked.priority, asked.pid], [20, 2, process.pid]);
  assert.deepEqual(next.sets[0], { id: 50, own_weight: 9 });
  assert.equal(below.parent, 50, 'the child follows its parent');
  next.publish(50, numbers(70 * MIB));
  assert.equal(principal.read().limit, 70 * MIB);
});

test('what is set while it joins is told too', async (t) => {
  const directory = folder(t);
  const principal = await openFor(t, 'test', { socket: join(directory, 'broker.sock'), timeoutMs: 60_000 });
  const running = await fakeFor(t, 'late', directory);
  running.lateMs = 200;
  await eventually('it registers', () => running.calls > 0);
  await principal.set({ weight: 12 });
  await principal.adapt('hotspot');
  await awaitEvent(principal, 'joined');
  await eventually('both arrive', () => running.sets.length === 1 && running.adapted.length === 1);
  assert.deepEqual([running.sets[0].weight, running.adapted[0]], [12, [1, 'hotspot']]);
});

test('a process that is a principal already is found, and steers itself', async (t) => {
  const fake = await fakeFor(t, 'strict');
  // As `plimsoll run` registers a program: with a weight, without an adapter.
  const outer = await openAt(t, fake, { weight: 40 });
  const inner = await openAt(t, fake, { weight: 7, adapter: 'self' });
  assert.deepEqual([outer.id, inner.id], [1, 1]);
  for (const joined of [outer, inner]) await awaitEvent(joined, 'joined');
  assert.deepEqual(fake.adapted, [[1, 'self']]);
  const passive = await openAt(t, fake);
  assert.equal(passive.id, 1);
  assert.equal(fake.adapted.length, 1, 'who steers nothing says nothing');
  passive.close();
  fake.publish(1, numbers(60 * MIB));
  assert.deepEqual([outer.read().limit, inner.read().limit], [60 * MIB, 60 * MIB]);

  // After a crash of the broker, it waits for the principal of `plimsoll run` to come back with its weight.
  await fake.kill();
  await awaitEvent(inner, 'brokerLost');
  const next = await fakeFor(t, 'strict', fake.directory, 9);
  for (const joined of [outer, inner]) await awaitEvent(joined, 'joined');
  assert.deepEqual([outer.id, inner.id], [9, 9]);
  assert.deepEqual([next.registered.length, next.registered[0].weight], [1, 40]);
  assert.deepEqual(next.adapted, [[9, 'self']]);

  // If that principal does not come back, the program registers itself.
  await next.kill();
  outer.close();
  const last = await fakeFor(t, 'strict', fake.directory, 20);
  await eventually('it registers', () => inner.id === 20);
  assert.equal(last.registered[0].weight, 7);
});

test('who adapts may change and is told to every broker', async (t) => {
  const fake = await fakeFor(t);
  const principal = await openAt(t, fake);
  await awaitEvent(principal, 'joined');
  for (const adapter of ['hotspot', 'hotspot', null, 'hotspot']) await principal.adapt(adapter);
  assert.deepEqual(fake.adapted, [
    [1, 'hotspot'],
    [1, null],
    [1, 'hotspot'],
  ]);
  await assert.rejects(principal.adapt('a\nb'), { errorName: 'io.plimsoll.BadName' });
  await fake.kill();
  await awaitEvent(principal, 'brokerLost');
  const next = await fakeFor(t, 'good', fake.directory, 9);
  await awaitEvent(principal, 'joined');
  assert.equal(next.registered[0].adapter, 'hotspot');
});

test('pages are found wherever they are', async (t) => {
  const fake = await fakeFor(t, 'strict');
  const owner = await openAt(t, fake);
  const other = await openAt(t, fake);
  await awaitEvent(other, 'joined');
  await fake.kill();
  await awaitEvent(other, 'brokerLost');
  const next = await fakeFor(t, 'pagesElsewhere', fake.directory, 20);
  await awaitEvent(other, 'joined');
  next.publishSilently(20, numbers(33 * MIB));
  assert.deepEqual([owner.read().limit, other.read().limit], [33 * MIB, 33 * MIB]);
});

test('a maximum of zero is none', async (t) => {
  const fake = await fakeFor(t);
  await openAt(t, fake, { max: 0 });
  assert.equal(fake.registered[0].max, undefined);
});

test('a closed principal still reads, and nothing else', async (t) => {
  const fake = await fakeFor(t);
  const principal = await openAt(t, fake);
  await awaitEvent(principal, 'joined');
  const waiting = principal.wait(60_000);
  principal.close();
  principal.close();
  assert.equal((await waiting).type, 'timeout');
  assert.equal((await principal.wait(60_000)).type, 'timeout');
  principal.released(1);
  principal.report({ live: 1 });
  assert.ok(principal.read().limit > 0);
  await assert.rejects(principal.set({ weight: 5 }), { code: 'PLIMSOLL_CLOSED' });
});

test('wrong parameters are refused before they are sent', async () => {
  const refusals = [
    ['a\nb', {}, 'BadName'],
    ['', {}, 'BadName'],
    ['é'.repeat(33), {}, 'BadName'],
    ['half \ud800', {}, 'BadName'],
    [undefined, {}, 'BadName'],
    ['x', { adapter: 'Self' }, 'BadName'],
    ['x', { weight: 0 }, 'BadWeight'],
    ['x', { weight: 1.5 }, 'BadWeight'],
    ['x', { priority: 101 }, 'BadPriority'],
    ['x', { max: 1 }, 'BadMax'],
    ['x', { pid: 0 }, 'NoSuchProcess'],
  ];
  for (const [name, options, refusal] of refusals) {
    const opening = Principal.open(name, { alone: true, ...options });
    await assert.rejects(opening, (error) => {
      assert.ok(error instanceof PlimsollError);
      assert.deepEqual([error.code, error.errorName], ['PLIMSOLL_REFUSED', `io.plimsoll.${refusal}`]);
      return true;
    });
  }
  await assert.rejects(Principal.open('x', { alone: true, timeoutMs: 0 }), { code: 'PLIMSOLL_INVALID' });
});
