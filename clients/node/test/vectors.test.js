/** The vectors of `clients/vectors`, which clients in every language run. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Ghost } from '../src/ghost.js';
import { Governor } from '../src/governor.js';
import {
  checkKnown,
  checkSettings,
  readChanged,
  readRegistered,
  reportParameters,
  setParameters,
} from '../src/messages.js';
import { decode, faultOf, isStale } from '../src/page.js';
import { encodeCall, parseReply } from '../src/varlink.js';
import { cases } from './support/shared.js';

function shownGovern(rate, govern) {
  const { family, processLimit, heapLimit, releaseTo, mayRelease, report } = govern;
  return {
    rate,
    family,
    process_limit: processLimit,
    heap_limit: heapLimit,
    release_to: releaseTo,
    may_release: mayRelease,
    report: report && {
      allocation_rate: report.allocationRate ?? null,
      floor: report.floor,
      reaction_ms: report.reactionMs,
    },
  };
}

for (const { name, started, allocated, steps } of cases('governor')) {
  test(`governor: ${name}`, () => {
    const governor = new Governor(started, allocated);
    for (const step of steps) {
      const rate = governor.measure(step.now, step.allocated);
      const govern = governor.step(step.now, step.granted, step.own);
      assert.deepEqual(shownGovern(rate, govern), step.expect, `at ${step.now}`);
      if (step.released) {
        const { began, ended, resident } = step.released;
        governor.released(began, ended, resident);
      }
    }
  });
}

for (const { name, begun, steps } of cases('ghost')) {
  test(`ghost: ${name}`, () => {
    const ghost = new Ghost(begun);
    for (const { evicted, missed, worth } of steps) {
      if (evicted) ghost.evicted(...evicted);
      if (missed) ghost.missed(...missed);
      if (worth) assert.equal(ghost.worth(worth[0]), worth[1], `at ${worth[0]}`);
    }
  });
}

function shownPage(bytes, now) {
  if (faultOf(bytes) !== null) return 'not a page';
  const page = decode(bytes);
  if (page === null) return 'no numbers';
  const { id, heartbeat, generation, ...numbers } = page;
  return { id, numbers, heartbeat, generation, stale: isStale(page, now) };
}

for (const { name, now, bytes, expect } of cases('pages')) {
  test(`page: ${name}`, () => {
    const page = Buffer.alloc(4096);
    page.write(bytes, 'hex');
    assert.deepEqual(shownPage(page, now), expect);
  });
}

/** The parameters of a call as our own code writes them. */
function rewritten(method, { id, ...fields }) {
  const camel = (name) => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());
  const named = Object.fromEntries(Object.entries(fields).map(([key, value]) => [camel(key), value]));
  switch (method) {
    case 'io.plimsoll.Report':
      return reportParameters(id, checkKnown(named));
    case 'io.plimsoll.Set':
      return setParameters(id, checkSettings(named));
    default:
      return { id, ...fields };
  }
}

for (const { name, message } of cases('calls')) {
  test(`call: ${name}`, () => {
    const { method, parameters, ...mode } = JSON.parse(message);
    const written = encodeCall(method, rewritten(method, parameters), mode);
    assert.equal(written.at(-1), 0, 'a message ends with a NUL byte');
    assert.deepEqual(JSON.parse(written.subarray(0, -1)), JSON.parse(message));
  });
}

const READ = { Register: readRegistered, Subscribe: readChanged };

function shownReply(to, message) {
  try {
    const { parameters, continues } = parseReply(Buffer.from(message));
    return { continues, parameters: READ[to]?.(parameters) ?? {} };
  } catch (error) {
    return { error: error.errorName, message: error.message };
  }
}

for (const { name, to, message, expect } of cases('replies')) {
  test(`reply: ${name}`, () => {
    assert.deepEqual(shownReply(to, message), expect);
  });
}
