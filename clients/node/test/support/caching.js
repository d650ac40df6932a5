/** A program with a cache that fills itself: `node caching.js SOCKET`. */

import { MemoryCache } from '../../src/cache.js';
import { Principal } from '../../src/index.js';

const principal = await Principal.open('caching', { socket: process.argv[2] });
const cache = new MemoryCache(principal, { sizeCalculation: (value) => value.length });
setInterval(() => {
  // Some are asked for again that were dropped. To a cache of which none is, memory is worth nothing.
  const key = Math.floor(Math.random() * 400);
  if (cache.get(key) === undefined) cache.set(key, Buffer.alloc(2 ** 20, 1));
}, 5);
setInterval(() => {
  const { limit, uses, owed } = principal.read();
  const [inLimit, inUse, inDebt, held] = [limit, uses, owed, cache.calculatedSize].map((size) => size >> 20);
  console.log(`limit ${inLimit} MiB, uses ${inUse} MiB, owed ${inDebt} MiB, cached ${held} MiB`);
}, 500);
