/** Local sensing, and what else is pure. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { locate, parseMounts } from '../src/cgroup.js';
import { parseMeminfo } from '../src/domain.js';
import { newsSince } from '../src/events.js';
import { decide, Local } from '../src/local.js';
import { NOTHING } from '../src/numbers.js';
import { PendingReleases } from '../src/pending-releases.js';
import { pairs } from '../src/proc.js';
import { descriptors, MIB } from './support/shared.js';

function sensed(capacity, room, uses) {
  return { capacity: capacity * MIB, room: room * MIB, uses: uses * MIB };
}

test('takes a part of what is free, and gives back when nothing is', () => {
  const calm = decide(sensed(1600, 832, 100), Infinity, NOTHING, 5);
  assert.deepEqual([calm.limit, calm.available], [300 * MIB, 900 * MIB]);
  assert.deepEqual([calm.owed, calm.deadline, calm.level], [0, 0, 'normal']);

  const short = decide(sensed(1600, 12, 100), Infinity, calm, 5);
  assert.deepEqual([short.owed, short.limit], [20 * MIB, 80 * MIB]);
  assert.deepEqual([short.deadline, short.level], [5 + 1e9, 'warning']);

  const late = decide(sensed(1600, 12, 100), Infinity, short, short.deadline + 1);
  assert.equal(late.deadline, short.deadline, 'a debt keeps its deadline');
  assert.equal(late.level, 'critical');

  const back = decide(sensed(1600, 12, 100), Infinity, short, 1);
  assert.deepEqual([back.deadline, back.level], [short.deadline, 'warning'], 'a clock that jumped back');
});

test('never more than there is', () => {
  const random = (most) => Math.floor(Math.random() * (most + 1));
  for (let round = 0; round < 10_000; round++) {
    const capacity = random(2 ** random(50));
    const room = random(capacity);
    const uses = random(capacity - room);
    const bound = random(2 ** 53);
    const found = decide({ capacity, room, uses }, bound, NOTHING, random(2 ** 53));
    const told = JSON.stringify({ capacity, room, uses, bound, found });
    assert.ok(found.limit <= uses + room && found.limit <= bound, told);
    assert.ok(found.available <= uses + room && found.owed <= uses, told);
    assert.ok(
      Object.values(found).every((value) => typeof value === 'string' || value >= 0),
      told,
    );
  }
});

test('a dead broker’s limit holds for a while', (t) => {
  const local = new Local(process.pid);
  t.after(() => local.rest());
  local.inherit(7 * MIB, 1000);
  assert.ok(local.sense(2000).limit <= 7 * MIB);
  const after = local.sense(1000 + 10e9);
  assert.ok(after.uses > 7 * MIB && after.limit > 7 * MIB, JSON.stringify(after));
});

test('senses processes that are gone, and none', (t) => {
  const before = descriptors();
  for (const pid of [null, 2 ** 22, 1]) {
    const local = new Local(pid);
    t.after(() => local.rest());
    assert.ok(local.sense(5).available >= 0);
    local.setPid(process.pid);
    assert.ok(local.sense(6).uses > 0);
    local.rest();
  }
  assert.equal(descriptors(), before, 'all files are closed');
});

test('what was given back is not owed until the numbers are newer', () => {
  const reading = (at, owed) => ({
    ...NOTHING,
    ...{ uses: 1000 + owed, limit: 1000, owed, deadline: 9, level: 'critical', sensed: at },
    ...{ source: 'broker', heartbeat: 0, generation: 0 },
  });
  const pending = new PendingReleases();
  const told = reading(10, 668);
  pending.add(600, 20, told);
  assert.equal(pending.settle(told).owed, 68);
  pending.add(68, 30, told);
  const onItsWay = pending.settle(reading(19, 675));
  assert.deepEqual([onItsWay.owed, onItsWay.uses], [7, 1007]);
  const { owed, deadline, uses, level } = pending.settle(told);
  assert.deepEqual([owed, deadline, uses, level], [0, 0, 1000, 'normal']);
  assert.equal(pending.settle(reading(20, 70)).owed, 2, 'the first payment shows');
  const after = reading(30, 5);
  assert.equal(pending.settle(after), after, 'both show: what is owed now is new');

  const many = new PendingReleases();
  for (let at = 101; at <= 1100; at++) many.add(1, at, reading(100, 0));
  assert.equal(many.settle(reading(100, 5000)).owed, 4000);
  many.add(7, 1101, reading(1100, 0));
  assert.equal(many.settle(reading(1100, 10)).owed, 3);
  const older = { ...reading(0, 10), heartbeat: 2000 };
  assert.equal(many.settle(older).owed, 10, 'an older broker: its heartbeat counts');
});

test('the event that matters most is told', () => {
  const state = (more, joined = true, joins = 1) => ({ reading: { ...NOTHING, ...more }, joined, joins });
  const news = (before, after) => newsSince(state(...before), state(...after));
  assert.equal(news([{}, false, 0], [{ owed: 5 }]), 'joined');
  assert.equal(news([{}], [{}, true, 2]), 'joined');
  assert.equal(news([{}], [{ owed: 5 }, false]), 'brokerLost');
  assert.equal(news([{ owed: 5, deadline: 1 }], [{ owed: 4, deadline: 2 }]), 'owed');
  assert.equal(news([{ owed: 5 }], [{ limit: 7 }]), 'relief');
  assert.equal(news([{ level: 'critical' }], [{ level: 'warning' }]), 'relief');
  assert.equal(news([{ level: 'normal' }], [{ level: 'warning' }]), 'changed');
  assert.equal(news([{ available: 1 }], [{ available: 2 }]), 'changed');
  assert.equal(news([{ uses: 1 }], [{ uses: 2 }]), null);
});

const MEMINFO = `MemTotal:        1000 kB
MemFree:          100 kB
MemAvailable:     500 kB
Dirty:             50 kB
Inactive(file):   250 kB
SwapCached:        10 kB
SReclaimable:      20 kB
broken
`;

test('what is free of the machine is what the kernel says, or less', () => {
  assert.deepEqual(parseMeminfo(MEMINFO), { capacity: 1000 * 1024, room: 320 * 1024 });
  const less = MEMINFO.replace(' 500 kB', ' 300 kB');
  assert.deepEqual(parseMeminfo(less), { capacity: 1000 * 1024, room: 300 * 1024 });
  assert.throws(() => parseMeminfo(''), /MemTotal/);
  assert.deepEqual(
    [...pairs('anon 4096\nVmSwap:\t  12 kB\nanon\n')],
    Object.entries({ anon: 4096, VmSwap: 12288 }),
  );
});

const FIRST = '35 24 0:30 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n';
const SECOND = '36 24 0:31 / /sys/fs/cg\\040roup rw - cgroup2 none rw\n';

test('groups are found under both versions', () => {
  const mounts = parseMounts(`1 0 8:1 / / rw - ext4 /dev/x rw\n${FIRST}${SECOND}`);
  assert.deepEqual(
    mounts.map(({ version, point }) => [version, point]),
    [
      [1, '/sys/fs/cgroup/memory'],
      [2, '/sys/fs/cg roup'],
    ],
  );
  const at = (membership, list, hasMemory) => locate(membership, list, () => hasMemory);
  const both = '5:cpu:/no\n4:memory:/a/b (deleted)\n0::/c\n';
  const top = '/sys/fs/cgroup/memory';
  assert.deepEqual(at(both, mounts, false), { version: 1, directory: `${top}/a/b`, top });
  const second = { version: 2, directory: '/sys/fs/cg roup/c', top: '/sys/fs/cg roup' };
  assert.deepEqual(at('0::/c\n', mounts, true), second);
  assert.equal(at('0::/c\n', mounts, false), null, 'without the controller');
  const part = parseMounts(FIRST.replace(' / /sys', ' /a /sys'));
  assert.deepEqual(at(both, part, true), { version: 1, directory: `${top}/b`, top });
  const other = parseMounts(FIRST.replace(' / /sys', ' /x /sys'));
  assert.equal(at(both, other, true), null, 'a part of the tree that is not ours');
  const above = parseMounts(FIRST.replace(' / /sys', ' /../.. /sys'));
  assert.equal(at(both, above, true), null);
});
