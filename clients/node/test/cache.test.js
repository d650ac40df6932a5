/** The ready cache. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryCache } from '../src/cache.js';
import { now } from '../src/clock.js';
import { numbers } from './support/fake.js';
import { Broker, SKIP } from './support/real.js';
import { eventually, fakeFor, MIB, nodeChild, openAt } from './support/shared.js';

const sizeCalculation = (value) => value.length;

async function cacheFor(t, fake, options = {}) {
  const principal = await openAt(t, fake, { adapter: 'self' });
  const cache = new MemoryCache(principal, { sizeCalculation, collect: null, ...options });
  t.after(() => cache.close());
  return cache;
}

function fill(cache, count, size = MIB) {
  for (let key = 0; key < count; key++) cache.set(key, Buffer.alloc(size, 1));
}

// The first test of this file: glibc gives large blocks back until the first of them was freed.
test('gives back what is owed, reports it, and grows no more meanwhile', async (t) => {
  const fake = await fakeFor(t);
  fake.firstNumbers = numbers(400 * MIB, { uses: 100 * MIB, sensed: now() });
  const cache = await cacheFor(t, fake, { collect: undefined });
  fill(cache, 200);
  assert.equal(cache.calculatedSize, 200 * MIB);
  const [sensed, deadline] = [now(), now() + 1e9];
  const debt = { uses: 300 * MIB, owed: 80 * MIB, deadline, sensed, level: 'warning' };
  fake.publish(1, numbers(220 * MIB, debt));
  await eventually('it is given back', () => fake.released >= 60 * MIB);
  assert.ok(cache.calculatedSize <= 140 * MIB, `${cache.calculatedSize}`);
  assert.ok(cache.calculatedSize >= 110 * MIB, `no more than is owed: ${cache.calculatedSize}`);
  const before = cache.calculatedSize;
  fill(cache, 200);
  assert.ok(cache.calculatedSize <= before + MIB);
  await eventually('how long it took', () => fake.reports.some((report) => report.reaction_ms > 0));
});

test('grows only while the program uses less than its limit', async (t) => {
  const fake = await fakeFor(t);
  fake.firstNumbers = numbers(100 * MIB, { uses: 90 * MIB, sensed: now() });
  const cache = await cacheFor(t, fake);
  fill(cache, 30);
  assert.equal(cache.calculatedSize, 10 * MIB);
  assert.ok(cache.has(29) && !cache.has(0), 'the oldest made room');
  // The numbers may not show yet by what it grew.
  fake.publishSilently(1, numbers(105 * MIB, { uses: 95 * MIB, sensed: now() }));
  fill(cache, 30);
  assert.equal(cache.calculatedSize, 10 * MIB);
  fake.publishSilently(1, numbers(105 * MIB, { uses: 100 * MIB, sensed: now() }));
  fill(cache, 100);
  assert.equal(cache.calculatedSize, 15 * MIB);
  fake.publishSilently(1, numbers(105 * MIB, { uses: 120 * MIB, sensed: now() }));
  fill(cache, 100);
  assert.ok(cache.calculatedSize <= 15 * MIB && cache.calculatedSize > 0, 'only a debt makes it smaller');
});

test('never holds more than its maximum', async (t) => {
  const cache = await cacheFor(t, await fakeFor(t), { maxSize: 3 * MIB });
  fill(cache, 10);
  assert.equal(cache.calculatedSize, 3 * MIB);
});

test('keeps what it has to keep', async (t) => {
  const fake = await fakeFor(t);
  fake.firstNumbers = numbers(200 * MIB, { uses: 100 * MIB, sensed: now() });
  const cache = await cacheFor(t, fake, { minSize: 30 * MIB });
  fill(cache, 40);
  fake.publish(
    1,
    numbers(50 * MIB, { uses: 950 * MIB, owed: 900 * MIB, deadline: now() + 1e8, sensed: now() }),
  );
  await eventually('it is as small as it may be', () => cache.calculatedSize === 30 * MIB);
  fill(cache, 40);
  assert.equal(cache.calculatedSize, 30 * MIB);
});

test('reports what it would hold if it kept all', async (t) => {
  const fake = await fakeFor(t);
  fake.firstNumbers = numbers(100 * MIB, { uses: 90 * MIB, sensed: now() });
  const cache = await cacheFor(t, fake, { maxSize: 64 * MIB, minSize: MIB });
  fill(cache, 40);
  await eventually('the demand', () => fake.reports.at(-1)?.demand > 110 * MIB);
  const { demand, floor } = fake.reports.at(-1);
  assert.ok(demand <= (90 + 64) * MIB && floor < demand, `${demand} ${floor}`);
  fill(cache, 40);
  assert.equal(cache.get(39)?.length, MIB);
});

test('reports what more memory is worth', async (t) => {
  const fake = await fakeFor(t);
  fake.firstNumbers = numbers(100 * MIB, { uses: 50 * MIB, sensed: now() });
  const cache = await cacheFor(t, fake);
  fill(cache, 80);
  // The list stands for six MiB: the keys 24 to 29.
  assert.equal(cache.get(29), undefined);
  await new Promise((done) => setTimeout(done, 20));
  cache.set(29, Buffer.alloc(MIB));
  await eventually('it is told', () => fake.reports.some(({ worth }) => worth > 0));
});

test('measures what it fetches', async (t) => {
  const fake = await fakeFor(t);
  fake.firstNumbers = numbers(100 * MIB, { uses: 50 * MIB, sensed: now() });
  const fetchMethod = () => new Promise((done) => setTimeout(done, 20, Buffer.alloc(MIB)));
  const cache = await cacheFor(t, fake, { fetchMethod });
  fill(cache, 80);
  assert.equal((await cache.fetch(29)).length, MIB);
  const worths = () => fake.reports.map(({ worth = 0 }) => worth);
  await eventually('it is told', () => worths().some((worth) => worth > 0));
  assert.ok(Math.max(...worths()) > 20e6 / 6.25 / 10, `${worths()}`);
});

test('a cache that drops nothing gains nothing', async (t) => {
  const fake = await fakeFor(t);
  fake.firstNumbers = numbers(100 * MIB, { uses: 50 * MIB, sensed: now() });
  const cache = await cacheFor(t, fake, {
    fetchMethod: async () => Buffer.alloc(MIB),
  });
  for (let key = 0; key < 30; key++) assert.equal((await cache.fetch(key)).length, MIB);
  await eventually('that is told', () => fake.reports.some(({ worth }) => worth === 0));
  assert.ok(fake.reports.every(({ worth = 0 }) => worth === 0));
});

test('caches of a real broker pay each other', { skip: SKIP, timeout: 300_000 }, async (t) => {
  const broker = await new Broker(t).start();
  const first = nodeChild(t, 'caching.js', [broker.socket]);
  const numbersIn = async (child, holds) => {
    const found = await broker.of(child);
    return found !== null && holds(found);
  };
  await eventually('the cache is full', () => numbersIn(first, ({ uses }) => uses > 190 * MIB));
  const second = nodeChild(t, 'caching.js', [broker.socket]);
  await eventually('the other has its half', () => numbersIn(second, ({ uses }) => uses > 105 * MIB));
  await eventually('the first owes nothing', () => numbersIn(first, ({ owed }) => owed === 0));
  await eventually('and has what its limit allows', () =>
    numbersIn(first, ({ uses, limit, owed }) => owed === 0 && uses > limit * 0.75),
  );
});
