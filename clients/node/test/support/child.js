/** A program that the tests start: `node child.js MODE SOCKET`. It prints what it sees. */

import { closeSync, openSync } from 'node:fs';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Principal } from '../../src/index.js';
import { candidates, surroundings } from '../../src/socket.js';

const [, , mode, socket] = process.argv;

/** Opens a principal and comes to the end of the program. */
async function ends() {
  const principal = await Principal.open('child', { socket });
  principal.on('changed', () => {});
  principal.events().next();
  console.log(`source ${principal.read().source}`);
}

/** Lives until its input ends, because it says so. */
async function lives() {
  const principal = await Principal.open('child', { socket });
  principal.ref();
  console.log(`source ${principal.read().source}`);
  for await (const { type } of principal.events()) {
    console.log(`event ${type}`);
    if (type === 'brokerLost') principal.close();
  }
}

/** Has no descriptor left, and later has some. */
async function exhausted() {
  console.log('begin');
  const held = [];
  try {
    for (;;) held.push(openSync('/dev/null', 'r'));
  } catch (error) {
    console.log(`full ${error.code}`);
  }
  const principal = await Principal.open('child', { socket });
  principal.ref();
  console.log(`source ${principal.read().source} ${principal.read().available > 0}`);
  for (const descriptor of held.splice(0)) closeSync(descriptor);
  while (principal.id === null) await sleep(10);
  console.log(`joined ${principal.read().source}`);
  try {
    for (;;) held.push(openSync('/dev/null', 'r'));
  } catch {
    console.log('full again');
  }
  while (principal.id !== null) await sleep(10);
  console.log(`lost ${principal.read().source} ${principal.read().available > 0}`);
  for (const descriptor of held) closeSync(descriptor);
  while (principal.id === null) await sleep(10);
  console.log(`back ${principal.read().source}`);
  principal.close();
}

/** Has a listener that throws. */
async function throws() {
  const principal = await Principal.open('child', { socket });
  process.once('uncaughtException', ({ message }) => console.log(`thrown ${message}`));
  principal.once('joined', () => {
    throw new Error('mine');
  });
  principal.on('changed', ({ source }) => {
    console.log(`changed ${source} ${principal.lastError}`);
    principal.close();
  });
  principal.ref();
}

/** Makes a call that is under way while the process is stopped. */
async function stopped() {
  const principal = await Principal.open('child', { socket, timeoutMs: 1500 });
  principal.ref();
  for (const type of ['brokerLost', 'joined']) principal.on(type, () => console.log(`event ${type}`));
  await sleep(50);
  console.log('calls');
  await principal.set({ weight: 5 });
  console.log(`answered ${principal.read().source} ${principal.lastError}`);
  await sleep(1500);
  console.log(`later ${principal.read().source}`);
  principal.close();
}

/** Listens and accepts nothing. */
function deaf() {
  const server = createServer(() => {});
  server.listen({ path: socket, backlog: 1 }, () => console.log('listens'));
}

/** Prints which variables are trusted. */
function trusts() {
  const { socket: named, runtimeDir } = surroundings();
  console.log(`trusts ${named} ${runtimeDir} ${candidates(surroundings()).length}`);
}

await { ends, lives, throws, exhausted, stopped, deaf, trusts }[mode]();
