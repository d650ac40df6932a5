/** Where a broker is looked for, and which sockets are not trusted. */

import assert from 'node:assert/strict';
import { chmodSync, chownSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { Connection, firstConnection } from '../src/connection.js';
import { isAbsent } from '../src/errors.js';
import { candidates, pageOf } from '../src/socket.js';
import { folder, openFor } from './support/shared.js';

const paths = (around) => candidates(around).map(({ path }) => path);

test('places are looked at in order', () => {
  const byUser = '/run/user/1234/plimsoll/broker.sock';
  const rest = ['/tmp/plimsoll-1234/broker.sock', '/run/plimsoll/broker.sock'];
  const around = { uid: 1234 };
  assert.deepEqual(paths(around), [byUser, ...rest]);
  assert.deepEqual(paths({ ...around, runtimeDir: '/x' }), ['/x/plimsoll/broker.sock', byUser, ...rest]);
  assert.deepEqual(paths({ ...around, runtimeDir: '/run/user/1234' }), [byUser, ...rest], 'not twice');
  assert.equal(paths({ ...around, home: '/h' })[2], '/h/.cache/plimsoll/broker.sock');
  assert.deepEqual(paths({ ...around, home: '/h', socket: '/y.sock' }), ['/y.sock'], 'and nothing else');
  assert.equal(pageOf({ path: '/a/b.sock', owner: null }, 7), '/a/pages/7');
});

test('a directory has to be the user’s own, and closed to others', async (t) => {
  const above = folder(t);
  chmodSync(above, 0o755);
  const directory = join(above, 'plimsoll');
  const place = { path: join(directory, 'broker.sock'), owner: process.getuid() };
  const open = () => Connection.open(place, 1000);
  const untrusted = (message) => ({ code: 'PLIMSOLL_UNTRUSTED', message });
  await assert.rejects(open(), isAbsent, 'nothing there is no attack');
  symlinkSync('/tmp', directory);
  await assert.rejects(open(), untrusted(/not a directory/));
  rmSync(directory);
  mkdirSync(directory);
  chmodSync(directory, 0o755);
  await assert.rejects(open(), untrusted(/others than its owner/));
  chmodSync(directory, 0o700);
  await assert.rejects(open(), isAbsent, 'trusted, but nobody listens');
  if (process.getuid() !== 0) return t.diagnostic('skipped in part: giving files away needs root');
  writeFileSync(place.path, '');
  chownSync(place.path, 65534, 65534);
  await assert.rejects(open(), untrusted(/user 65534 listens/));
  chownSync(directory, 65534, 65534);
  await assert.rejects(open(), untrusted(/belongs to user 65534/));
});

test('what cannot be connected to is said', async (t) => {
  const path = join(folder(t), 's');
  const open = (at) => Connection.open({ path: at, owner: null }, 1000);
  await assert.rejects(open(path), (error) => isAbsent(error) && error.message.includes(path));
  writeFileSync(path, 'no socket');
  await assert.rejects(open(path), isAbsent);
  await assert.rejects(open(`/tmp/${'x'.repeat(200)}`), isAbsent);
  await assert.rejects(open(''), isAbsent);
  const places = ['/nowhere/a', '/nowhere/b'].map((at) => ({ path: at, owner: null }));
  await assert.rejects(firstConnection(places, 1000), /\/nowhere\/a, \/nowhere\/b/);
  const principal = await openFor(t, 'p', { socket: `/tmp/${'x'.repeat(200)}` });
  assert.equal(principal.read().source, 'local');
});

test('who does not answer is left, and the connection is of no use any more', async (t) => {
  const path = join(folder(t), 's');
  const server = createServer(() => {});
  await new Promise((resolve) => server.listen(path, resolve));
  t.after(() => server.close());
  const connection = await Connection.open({ path, owner: null }, 30);
  t.after(() => connection.close());
  await assert.rejects(connection.call('io.plimsoll.List'), { code: 'PLIMSOLL_TIMEOUT' });
  await assert.rejects(connection.call('io.plimsoll.List'), { code: 'PLIMSOLL_CLOSED' });
  await assert.rejects(connection.call('x', { long: 'x'.repeat(70_000) }), { code: 'PLIMSOLL_INVALID' });
});
