/**
 * The cost of reading the numbers: nanoseconds of processor time per call, as one JSON object. The broker is
 * the one that is found; without one the numbers are local, and no system call is made.
 */

import { Principal } from '../src/index.js';

const ROUNDS = 201;
const CALLS = 20_000;

/** Median and minimum of the rounds. Processor time, so that other programs do not count. */
function measure(call) {
  const costs = [];
  for (let round = 0; round < ROUNDS; round++) {
    const begin = process.cpuUsage();
    for (let count = 0; count < CALLS; count++) call();
    const { user, system } = process.cpuUsage(begin);
    costs.push(((user + system) * 1000) / CALLS);
  }
  costs.sort((a, b) => a - b);
  return { median: costs[ROUNDS >> 1], min: costs[0] };
}

const principal = await Principal.open('read-cost');
const read = measure(() => principal.read());
const { source } = principal.read();
console.log(JSON.stringify({ name: 'read-cost', unit: 'ns', rounds: ROUNDS, calls: CALLS, source, read }));
