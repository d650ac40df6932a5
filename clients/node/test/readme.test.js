/** The quick start of the README runs as it stands. */

import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Broker, SKIP } from './support/real.js';
import { Child, eventually, folder } from './support/shared.js';

test('the quick start runs', { skip: SKIP }, async (t) => {
  const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8');
  const [, code] = /## Quick start.*?```js\n(.*?)```/s.exec(readme);
  assert.ok(code.trim().split('\n').length <= 10, 'ten lines');
  const directory = folder(t);
  mkdirSync(join(directory, 'node_modules'));
  symlinkSync(fileURLToPath(new URL('..', import.meta.url)), join(directory, 'node_modules/plimsoll-memory'));
  writeFileSync(join(directory, 'cache.mjs'), code);
  const broker = await new Broker(t).start();
  const env = { ...process.env, PLIMSOLL_SOCKET: broker.socket };
  const child = new Child(t, process.execPath, ['cache.mjs'], { env, cwd: directory });
  await child.line('may use ');
  await eventually('the cache grows', async () => (await broker.of(child))?.uses > 120 * 2 ** 20);
});
