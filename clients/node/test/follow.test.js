/** The heap of V8 follows the limit. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { numbers } from './support/fake.js';
import { fakeFor, MIB, nodeChild } from './support/shared.js';

test('a program that follows its limit has a smaller heap, and reports', async (t) => {
  const fake = await fakeFor(t);
  fake.firstNumbers = numbers(120 * MIB, { uses: 100 * MIB });
  const run = async (mode) => {
    const child = nodeChild(t, 'following.js', [fake.socket, mode]);
    const peak = Number(await child.line('peak '));
    assert.equal(await child.ended, 0, child.output);
    return peak;
  };
  const ignoring = await run('ignore');
  assert.equal(fake.reports.length, 0);
  const following = await run('follow');
  t.diagnostic(`${Math.round(ignoring / MIB)} MiB, and ${Math.round(following / MIB)} MiB if it follows`);
  assert.ok(following < ignoring * 0.85, `${following} of ${ignoring}`);
  const { live, collections, floor } = fake.reports.at(-1);
  assert.ok(live > 20 * MIB && collections > 0 && floor > live, JSON.stringify(fake.reports.at(-1)));
});
