/** A scripted broker that behaves well, badly, late, or not at all. */

import { closeSync, ftruncateSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { now } from '../../src/clock.js';

const LEVELS = ['normal', 'warning', 'critical'];
const ENDLESS = Buffer.alloc(65536, ' ');

/** Numbers of a principal with this limit. */
export function numbers(limit, more = {}) {
  return {
    limit,
    available: limit * 2,
    owed: 0,
    deadline: 0,
    uses: Math.floor(limit / 2),
    share: limit,
    level: 'normal',
    sensed: 0,
    ...more,
  };
}

/** The bytes of a page, as the broker writes them. */
export function pageBytes({ id, sequence, numbers: told, heartbeat, generation, version = 1 }) {
  const bytes = Buffer.alloc(112);
  bytes.write('PLIMSOLL');
  bytes.writeUInt32LE(version, 8);
  bytes.writeUInt32LE(4096, 12);
  const words = [
    sequence,
    told.limit,
    told.available,
    told.owed,
    told.deadline,
    told.uses,
    told.share,
    LEVELS.indexOf(told.level),
    heartbeat,
    generation,
    id,
    told.sensed,
  ];
  words.forEach((word, index) => {
    bytes.writeBigUInt64LE(BigInt(Math.floor(word)), 16 + index * 8);
  });
  return bytes;
}

class Page {
  constructor(path, id, script) {
    Object.assign(this, { path, id, sequence: 0, generation: 0, descriptor: null });
    this.shownId = script === 'wrongId' ? 77 : id;
    this.version = script === 'wrongVersion' ? 9 : 1;
    if (script === 'noPage') return;
    // As the real broker does, makes a new file, so that readers of an old page of this name keep the old
    // one.
    rmSync(path, { force: true });
    this.descriptor = openSync(path, 'wx');
    ftruncateSync(this.descriptor, script === 'shortPage' ? 100 : 4096);
    this.isShort = script === 'shortPage';
  }

  publish(told) {
    this.last = told;
    this.generation += 1;
    this.sequence += 2;
    if (this.descriptor === null || this.isShort) return;
    const bytes = this.bytes(this.sequence);
    writeSync(this.descriptor, this.bytes(this.sequence - 1), 16, 8, 16);
    writeSync(this.descriptor, bytes, 0, 16, 0);
    writeSync(this.descriptor, bytes, 24, 88, 24);
    writeSync(this.descriptor, bytes, 16, 8, 16);
  }

  beat() {
    if (this.descriptor === null || this.isShort) return;
    writeSync(this.descriptor, this.bytes(this.sequence), 80, 8, 80);
  }

  bytes(sequence) {
    const { shownId: id, last, generation, version } = this;
    return pageBytes({ id, sequence, numbers: last, heartbeat: now(), generation, version });
  }

  close() {
    if (this.descriptor !== null) closeSync(this.descriptor);
    this.descriptor = null;
  }
}

/**
 * Scripts: `good`; `silent` takes calls and never answers; `late` answers after `lateMs`; `truncated` sends
 * half an answer and closes; `garbage`, `wrongTypes`; `endless`; `refuses` to register; `strict` refuses a
 * process that is a principal already; `pagesElsewhere`; `noPage`, `shortPage`, `wrongVersion`, `wrongId`,
 * `pipePage`; `diesAfterRegister`; `chatty` answers more than it is asked; `deep` lists very many levels.
 */
export class Fake {
  registered = [];
  reports = [];
  sets = [];
  attached = [];
  adapted = [];
  gone = [];
  released = 0;
  calls = 0;
  isFrozen = false;
  lateMs = 0;
  firstNumbers = numbers(100 * 2 ** 20);
  pages = new Map();
  #subscribers = new Set();
  #connections = new Set();
  #server;
  #beats;
  #isDead = false;

  constructor(directory, script, firstId) {
    Object.assign(this, { directory, script, nextId: firstId });
  }

  static async start(directory, script = 'good', firstId = 1) {
    const fake = new Fake(directory, script, firstId);
    for (const name of ['pages', 'elsewhere']) mkdirSync(join(directory, name), { recursive: true });
    rmSync(fake.socket, { force: true });
    fake.#server = createServer((socket) => fake.#serve(socket));
    await new Promise((resolve) => fake.#server.listen(fake.socket, resolve));
    fake.#beats = setInterval(() => fake.#beat(), 100);
    return fake;
  }

  get socket() {
    return join(this.directory, 'broker.sock');
  }

  page(id) {
    return join(this.directory, this.script === 'pagesElsewhere' ? 'elsewhere' : 'pages', String(id));
  }

  /** Writes the page and tells the subscribers. */
  publish(id, told) {
    const page = this.pages.get(id);
    page.publish(told);
    for (const [whose, socket] of this.#subscribers) {
      if (whose === id) send(socket, { parameters: changed(page), continues: true });
    }
  }

  /** Writes the page and tells nobody. */
  publishSilently(id, told) {
    this.pages.get(id).publish(told);
  }

  /** Sends raw bytes to all connections. */
  sendAll(bytes) {
    for (const socket of this.#connections) socket.write(bytes);
  }

  /** Stops heartbeats and answers but keeps connections open, as a stopped process does. */
  freeze() {
    this.isFrozen = true;
    this.script = 'silent';
  }

  /** Dies as by SIGKILL: connections end, files stay. */
  async kill() {
    this.#isDead = true;
    clearInterval(this.#beats);
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const socket of this.#connections) socket.destroy();
    await closed;
    for (const page of this.pages.values()) page.close();
  }

  #beat() {
    if (this.isFrozen) return;
    for (const page of this.pages.values()) page.beat();
  }

  #serve(socket) {
    this.#connections.add(socket);
    const life = { id: null };
    let rest = Buffer.alloc(0);
    socket.on('error', () => {});
    socket.on('close', () => this.#close(socket, life));
    socket.on('data', (chunk) => {
      rest = Buffer.concat([rest, chunk]);
      for (let end = rest.indexOf(0); end >= 0; end = rest.indexOf(0)) {
        const call = JSON.parse(rest.toString('utf8', 0, end));
        rest = rest.subarray(end + 1);
        this.calls += 1;
        this.#answer(socket, call, life);
      }
    });
  }

  #close(socket, life) {
    this.#connections.delete(socket);
    for (const subscriber of this.#subscribers) {
      if (subscriber[1] === socket) this.#subscribers.delete(subscriber);
    }
    if (life.id === null) return;
    this.gone.push(life.id);
    this.pages.get(life.id)?.close();
    this.pages.delete(life.id);
  }

  #answer(socket, call, life) {
    if (this.script === 'silent') return;
    if (this.script === 'truncated') return socket.end('{"parameters":{"id":1,"pa');
    if (this.script === 'garbage') return socket.write(Buffer.from('\xff\xfe nonsense\0', 'latin1'));
    if (this.script === 'endless') return pour(socket);
    if (this.script === 'chatty') send(socket, { parameters: {} });
    const answer = () => {
      if (this.#isDead) return;
      if (this.script === 'deep' && call.method.endsWith('.List')) return socket.write(deepListing());
      const reply = this.#dispatch(socket, call, life);
      send(socket, reply);
      if (this.script === 'diesAfterRegister' && life.id !== null) socket.destroy();
    };
    if (this.script === 'late') setTimeout(answer, this.lateMs);
    else answer();
  }

  #dispatch(socket, { method, parameters }, life) {
    const [name] = method.split('.').slice(-1);
    switch (name) {
      case 'Register':
        return this.#register(parameters, life);
      case 'Subscribe': {
        const page = this.pages.get(parameters.id);
        if (page === undefined) return refusal('NoSuchPrincipal', `no ${parameters.id}`);
        this.#subscribers.add([parameters.id, socket]);
        return { parameters: changed(page), continues: true };
      }
      case 'List':
        return { parameters: { principals: this.#listing() } };
      case 'Report':
        this.reports.push(parameters);
        if (this.script === 'old' && 'worth' in parameters) {
          const error = 'org.varlink.service.InvalidParameter';
          return { error, parameters: { parameter: 'worth', message: 'worth: unknown field `worth`' } };
        }
        break;
      case 'Released':
        this.released += parameters.bytes;
        break;
      case 'Set':
        this.sets.push(parameters);
        break;
      case 'Attach':
        this.attached.push(parameters);
        break;
      case 'Adapt':
        this.adapted.push([parameters.id, parameters.adapter ?? null]);
        break;
      case 'GetInfo':
        break;
      default:
        return { error: 'org.varlink.service.MethodNotFound', parameters: { method } };
    }
    return { parameters: {} };
  }

  #register(asked, life) {
    if (this.script === 'refuses') return refusal('TooMany', 'full; raise max_principals');
    if (this.script === 'wrongTypes') return { parameters: { id: 'seven', page: 7 } };
    const isThere = this.registered.some(({ pid, id }) => pid === asked.pid && this.pages.has(id));
    if (this.script === 'strict' && asked.pid !== undefined && isThere) {
      return refusal('AlreadyRegistered', 'it is one');
    }
    const id = this.nextId++;
    life.id = id;
    this.registered.push({ ...asked, id });
    const page = new Page(this.page(id), id, this.script);
    page.publish(this.firstNumbers);
    this.pages.set(id, page);
    const path = this.script === 'pipePage' ? join(this.directory, 'pipe') : page.path;
    const { weight = 100, priority = 0 } = asked;
    return { parameters: { id, page: path, pressure: '', cgroup: null, weight, priority } };
  }

  #listing() {
    return this.registered
      .filter(({ id }) => this.pages.has(id))
      .map(({ id, pid = null, name, adapter = null }) => {
        const page = this.script === 'pagesElsewhere' ? this.page(id) : null;
        return { id, pid, name, adapter, page, kind: 'process', children: [] };
      });
  }
}

function changed(page) {
  return { id: page.id, generation: page.generation, numbers: page.last };
}

function refusal(name, message) {
  return { error: `io.plimsoll.${name}`, parameters: { message } };
}

function send(socket, reply) {
  if (socket.writable) socket.write(`${JSON.stringify(reply)}\0`);
}

/** A listing of very many levels. */
function deepListing() {
  const levels = 100_000;
  return `{"parameters":{"principals":${'[{"id":1,"children":'.repeat(levels)}[]${'}]'.repeat(levels)}}}\0`;
}

/** Sends a message that never ends. */
function pour(socket) {
  while (socket.writable && socket.write(ENDLESS));
  if (socket.writable) socket.once('drain', () => pour(socket));
}
