/** A program with a cache that fills itself: `node caching.js SOCKET`. */

import { MemoryCache } from '../../src/cache.js';
import { Principal } from '../../src/index.js';

const principal = await Principal.open('caching', { socket: process.argv[2] });
const cache = new MemoryCache(principal, { sizeCalculation: (value) => value.length });
// Each is to have its share. Caches that report their worth lend to each other beyond that.
const report = principal.report.bind(principal);
principal.report = ({ worth: _, ...known }) => report(known);
let key = 0;
setInterval(() => cache.set(key++, Buffer.alloc(2 ** 20, 1)), 10);
setInterval(() => {
  const { limit, uses, owed } = principal.read();
  const [inLimit, inUse, inDebt, held] = [limit, uses, owed, cache.calculatedSize].map((size) => size >> 20);
  console.log(`limit ${inLimit} MiB, uses ${inUse} MiB, owed ${inDebt} MiB, cached ${held} MiB`);
}, 500);
