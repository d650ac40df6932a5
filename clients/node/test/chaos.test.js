/**
 * A broker that does all wrong things in turn, for some seconds (`PLIMSOLL_CHAOS_SECONDS`): reading always
 * works, and memory and descriptors stay flat.
 */

import assert from 'node:assert/strict';
import { truncateSync } from 'node:fs';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { now } from '../src/clock.js';
import { Fake, numbers } from './support/fake.js';
import { awaitEvent, descriptors, eventually, folder, MIB, openFor } from './support/shared.js';

const SECONDS = Number(process.env.PLIMSOLL_CHAOS_SECONDS ?? 5);
const SCRIPTS = [
  'good',
  'good',
  'strict',
  'silent',
  'late',
  'truncated',
  'garbage',
  'endless',
  'refuses',
  'noPage',
];
SCRIPTS.push(
  'shortPage',
  'wrongVersion',
  'wrongId',
  'wrongTypes',
  'diesAfterRegister',
  'chatty',
  'pagesElsewhere',
);

const pick = (list) => list[Math.floor(Math.random() * list.length)];

const DEEDS = [
  (fake, id) => fake.publish(id, numbers(Math.floor(Math.random() * 2 ** 40), { sensed: now() })),
  (fake, id) =>
    fake.publish(
      id,
      numbers(MIB, { owed: MIB, deadline: now() + 1e8, level: pick(['warning', 'critical']) }),
    ),
  (fake, id) => fake.publishSilently(id, numbers(Math.floor(Math.random() * 2 ** 40))),
  (fake, id) => truncateSync(fake.page(id), pick([0, 50, 4096])),
  (fake) => fake.sendAll(pick(['\0', '{}\0', '{"parameters":{}', 'x'.repeat(100_000)])),
  (fake) => {
    fake.script = pick(SCRIPTS);
  },
  (fake) => {
    fake.isFrozen = !fake.isFrozen;
  },
];

/** Lives for a moment, and does something wrong every few milliseconds. */
async function live(directory, round) {
  const fake = await Fake.start(directory, pick(SCRIPTS), round * 1000 + 1);
  fake.lateMs = 50;
  for (let deeds = 0; deeds < 100; deeds++) {
    const id = pick([...fake.pages.keys()]);
    if (deeds % 10 === 9) fake.script = 'good';
    try {
      pick(DEEDS)(fake, id);
    } catch {
      // There was no page to do it to.
    }
    await sleep(Math.random() * 10);
  }
  await fake.kill();
}

test('chaos', { timeout: (SECONDS + 120) * 1000 }, async (t) => {
  const directory = folder(t);
  const socket = `${directory}/broker.sock`;
  const principal = await openFor(t, 'chaos', { socket, timeoutMs: 50 });
  const events = {};
  for (const type of ['owed', 'relief', 'changed', 'brokerLost', 'joined']) {
    principal.on(type, ({ owed }) => {
      events[type] = (events[type] ?? 0) + 1;
      principal.released(owed);
    });
  }
  const reader = setInterval(() => {
    const { limit, source } = principal.read();
    assert.ok(limit >= 0 && ['broker', 'stale', 'local'].includes(source));
    principal.report({ demand: limit });
    principal.set({ weight: 1 + Math.floor(Math.random() * 100) }).catch(() => {});
  }, 1);
  t.after(() => clearInterval(reader));
  const end = Date.now() + SECONDS * 1000;
  const seen = [];
  for (let round = 0; round === 0 || Date.now() < end; round++) {
    await live(directory, round);
    seen.push({ resident: process.memoryUsage.rss(), open: descriptors() });
  }
  t.diagnostic(`${seen.length} brokers, events ${JSON.stringify(events)}`);

  const half = seen.slice(Math.floor(seen.length / 2));
  const [first, last] = [half[0], half.at(-1)];
  t.diagnostic(
    `resident ${first.resident / MIB} then ${last.resident / MIB} MiB; open ${first.open}, ${last.open}`,
  );
  assert.ok(last.resident < first.resident + 64 * MIB, JSON.stringify(seen));
  const fake = await Fake.start(directory);
  t.after(() => fake.kill());
  clearInterval(reader);
  await eventually(
    'it joins a good broker',
    () => principal.read().source === 'broker' && principal.id !== null,
  );
  principal.close();
  await awaitEvent(principal, 'timeout');
  await fake.kill();
  await eventually('all descriptors are closed', () => descriptors() <= seen[0].open);
});
