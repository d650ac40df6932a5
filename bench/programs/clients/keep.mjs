// Keeps memory in the client's hands: keep.mjs MIB. Fills so many blocks, says so, and gives back what is
// owed.
// Blocks go back to the kernel once V8 has collected them; --expose-gc lets it collect at once.
import { Principal } from '../../../clients/node/src/index.js';

const MIB = 2 ** 20;
const READS = 200_000;

const principal = await Principal.open('keep', { adapter: 'self' });
const begun = process.hrtime.bigint();
for (let i = 0; i < READS; i++) principal.read();
console.log(JSON.stringify({ read_ns: Number(process.hrtime.bigint() - begun) / READS }));
const blocks = Array.from({ length: Number(process.argv[2]) }, () => Buffer.alloc(MIB, 1));
console.log(JSON.stringify({ ready: blocks.length * MIB }));
principal.on('owed', ({ owed }) => {
  const count = Math.min(Math.ceil(owed / MIB), blocks.length);
  blocks.splice(0, count);
  globalThis.gc();
  principal.released(count * MIB);
});
setInterval(() => {}, 60_000);
