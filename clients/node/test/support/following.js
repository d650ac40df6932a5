/** A program with 40 MB of live data and very much garbage: `node following.js SOCKET follow|ignore`. */

import { setImmediate as turn } from 'node:timers/promises';
import { follow, Principal } from '../../src/index.js';

const [, , socket, mode] = process.argv;
const principal = await Principal.open('following', { socket });
const follower = mode === 'follow' ? follow(principal) : null;
const kept = Array.from({ length: 40 * 64 }, (_, at) => new Array(2048).fill(at));
let [at, peak] = [0, 0];
for (let round = 0; round < 1500; round++) {
  for (let count = 0; count < 40; count++) {
    at = (at * 7 + count) % kept.length;
    kept[at] = new Array(2048).fill(count);
  }
  // The time before it began to follow does not count.
  if (round > 500) peak = Math.max(peak, process.memoryUsage().heapTotal);
  await turn();
}
console.log(`peak ${peak}`);
follower?.stop();
