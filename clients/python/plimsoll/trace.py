"""Reads traces of what the threads of a Java program allocate, lock and compute (docs/src/trace-format.md).

    from plimsoll.trace import Trace, ALLOC

    trace = Trace("lusearch.trace")
    for thread in trace.threads:
        for block in trace.blocks(thread):
            allocated = block.size[block.kind == ALLOC].sum()

One block of one thread is in memory at a time, as numpy arrays. It needs numpy, and one of these for zstd:
Python 3.14 or later, or the package zstandard, backports.zstd or pyarrow.
"""

import io
import struct
import zlib
from dataclasses import dataclass, field

import numpy as np

COMPUTE, SLEEP, ALLOC, DEATH, START, END, JOIN, ENTER, EXIT = range(9)
WAIT, NOTIFY, PARK, UNPARK, STAMP, STORE, STORE_STATIC, USE = range(9, 17)

#: The names of the kinds of events, as in text and CSV.
NAMES = (
    "compute sleep alloc death start end join enter exit "
    "wait notify park unpark stamp store store-static use"
).split()

#: The newest format that this module reads.
VERSION = 1

_MAGIC = b"\x89PLT\r\n\x1a\n"
_END_MAGIC = b"PLTEND\r\n"
_HEAD = struct.Struct("<4sBBHIIIIQQQQQII")
_MAX_CONTENT = 128 << 10
_MAX_FACTS = 64 << 10
#: The most bytes of an object: Java's largest array.
_MAX_OBJECT = (8 << 31) + 4096
#: Kinds of events from this one on, and of blocks, may be passed over by those who do not know them.
_PASSED_OVER, _PASSED_OVER_BLOCK = 24, 128
_COLUMNS = (
    "tag compute pause object size class site named monitor thread priority stamp slot holder target"
).split()
_EVENTS, _NAMED, _INDEX = 1, 2, 3
_WHAT = ("class", "site", "thread", "monitor")
_UNITS = ("ns", "instructions")
_DEATHS = ("exact", "at-collections", "unknown")


class TraceError(Exception):
    """A trace cannot be read. The message has the path and the place, in bytes from the beginning of the
    file."""


@dataclass
class Block:
    """Events that follow each other in the stream of a thread. All arrays are equally long. A number that a
    kind of event does not have is 0."""

    #: The number of the thread.
    thread: int
    #: How many events of the thread stand before these.
    first: int
    #: What each event is: COMPUTE, SLEEP and so on. Pass over what is 24 or more: a newer version wrote it.
    kind: np.ndarray
    #: Of compute (in the unit of the trace) and sleep (ns).
    time: np.ndarray
    #: Of alloc, death, use.
    object: np.ndarray
    #: Of alloc, bytes.
    size: np.ndarray
    #: Of alloc and store-static.
    class_: np.ndarray
    #: Of alloc.
    site: np.ndarray
    #: The other thread, of start, join, unpark.
    peer: np.ndarray
    #: Of start.
    priority: np.ndarray
    #: Of enter, exit, wait, notify.
    monitor: np.ndarray
    #: Of wait and park, ns; 0 is without end.
    timeout: np.ndarray
    #: Of notify: 1 for all.
    all: np.ndarray
    #: Of stamp.
    order: np.ndarray
    #: Of store.
    holder: np.ndarray
    #: Of store and store-static.
    slot: np.ndarray
    #: Of store and store-static; 0 is null.
    target: np.ndarray
    #: Bytes that the thread has allocated before each event: its allocation clock.
    allocated: np.ndarray

    def __len__(self):
        return len(self.kind)


@dataclass
class Totals:
    """The sums of a stream."""

    events: int
    objects: int
    allocated: int
    time: int
    ended: bool


@dataclass
class Header:
    """The description of a trace."""

    identity: bytes
    #: "ns" or "instructions".
    unit: str
    #: "exact", "at-collections" or "unknown".
    deaths: str
    raw: bool
    facts: dict = field(default_factory=dict)


class Trace:
    """A trace that is open. Damage raises a TraceError; a trace whose end is missing is read up to
    its last whole block, and `cut` says at which byte that ends."""

    def __init__(self, path):
        self.path = str(path)
        self._file = open(path, "rb")
        self._length = self._file.seek(0, io.SEEK_END)
        self._decompress = _decompressor()
        self._offsets = {}
        self._names = []
        #: The sums of each thread's stream, by its number; empty if the trace is cut.
        self.totals = {}
        #: The most bytes of objects that lived at one time in the recorded order, or None if that was not
        #: noted.
        self.largest_live = None
        #: At which byte the whole blocks end, or None if the trace is whole.
        self.cut = None
        self.header, begin = self._read_header()
        index = self._index_begins()
        if index is None:
            self._look_for_blocks(begin, self._length)
        else:
            self._open_whole(begin, index)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Closes the file."""
        self._file.close()

    @property
    def threads(self):
        """The numbers of all threads, in order."""
        return sorted(self._offsets)

    def names(self):
        """All names: {("class" | "site" | "thread" | "monitor", number): name}."""
        names = {}
        for offset in self._names:
            _, content = self._load(offset, _NAMED)
            at = 0
            try:
                while at < len(content):
                    what, at = _number(content, at)
                    number, at = _number(content, at)
                    name, at = _text(content, at)
                    names[_WHAT[what], number] = name
            except (ValueError, IndexError) as why:
                raise self._wrong(offset, f"its names are wrong: {why}") from why
        return names

    def blocks(self, thread):
        """The events of a thread, in order, block by block."""
        expected, clocks, ended = 0, (0, 0, 0), False
        for offset in self._offsets[thread]:
            head, content = self._load(offset, _EVENTS)
            if head.first != expected or head.thread != thread:
                raise self._wrong(
                    offset,
                    f"it begins with event {head.first} of thread {head.thread}, and event {expected} of "
                    f"thread {thread} comes next: blocks are missing, doubled or out of order",
                )
            if (head.allocated, head.time, head.stamp) != clocks:
                why = "it begins at other clocks than those at which the block before it ended"
                raise self._wrong(offset, why)
            try:
                block = _decode(head, content)
            except (ValueError, IndexError) as why:
                raise self._wrong(offset, f"its content is wrong: {why}") from why
            wrong = _first_wrong(head, block, self.header.raw, ended)
            if wrong is not None:
                event, why = wrong
                event += expected
                raise TraceError(
                    f"{self.path}: thread {thread}, event {event} (block at byte {offset}): {why}"
                )
            expected += len(block)
            clocks = _clocks_after(head, block)
            if max(clocks) >= 1 << 64:
                raise self._wrong(offset, "the thread's clock passes 2^64")
            ended = ended or bool(np.any(block.kind == END))
            yield block

    def _wrong(self, offset, why):
        return TraceError(f"{self.path}: block at byte {offset}: {why}")

    def _read(self, offset, length):
        self._file.seek(offset)
        return self._file.read(length)

    def _read_header(self):
        fixed = self._read(0, 40)
        if not fixed.startswith(_MAGIC):
            raise TraceError(f"{self.path}: this is no trace: it does not begin as one")
        if len(fixed) < 40:
            raise TraceError(f"{self.path}: the head of the trace is cut")
        version, _, unit, deaths, raw, _, identity, length, told = struct.unpack("<HHBBBB16sII", fixed[8:])
        if version > VERSION:
            raise TraceError(f"{self.path}: format {version} of traces is newer than {VERSION}")
        facts = self._read(40, length) if length <= _MAX_FACTS else b""
        if len(facts) != length or zlib.crc32(facts, zlib.crc32(fixed[:36])) != told:
            raise TraceError(f"{self.path}: the head of the trace is damaged")
        if unit >= len(_UNITS):
            raise TraceError(f"{self.path}: the head of the trace is damaged: the unit of time is unknown")
        if deaths >= len(_DEATHS):
            raise TraceError(
                f"{self.path}: the head of the trace is damaged: how exact the deaths are is unknown"
            )
        texts, at = [], 0
        try:
            while at < len(facts):
                text, at = _text(facts, at)
                texts.append(text)
        except (ValueError, IndexError) as why:
            raise TraceError(f"{self.path}: the head of the trace is damaged: a fact is no text") from why
        facts = dict(zip(texts[::2], texts[1::2]))
        return Header(identity, _UNITS[unit], _DEATHS[deaths], bool(raw & 1), facts), 40 + length

    def _index_begins(self):
        mark = self._read(max(self._length - 20, 0), 20)
        if len(mark) < 20 or mark[12:] != _END_MAGIC:
            return None
        if zlib.crc32(mark[:8]) != int.from_bytes(mark[8:12], "little"):
            return None
        begin = int.from_bytes(mark[:8], "little")
        return begin if begin <= self._length - 20 else None

    def _open_whole(self, begin, index):
        """Reads the index, or looks for the blocks if the index is damaged."""
        at = index
        try:
            while at < self._length - 20:
                at += self._read_index(at, index)
        except (TraceError, ValueError, IndexError):
            self._offsets, self._names, self.totals, self.largest_live = {}, [], {}, None
            self._look_for_blocks(begin, index)
            if self.cut == index:
                self.cut = at

    def _read_index(self, offset, begin):
        """Reads a block of the index, which begins at `begin`, and returns how long the block is."""
        head, content = self._load(offset, _INDEX)
        at = last = 0
        while at < len(content):
            what, at = _number(content, at)
            if what == 1:
                thread, at = _number(content, at)
                far, at = _number(content, at)
                last = self._block(last + far, begin)
                self._offsets.setdefault(thread, []).append(last)
            elif what == 2:
                far, at = _number(content, at)
                last = self._block(last + far, begin)
                self._names.append(last)
            elif what == 3:
                values = []
                for _ in range(6):
                    value, at = _number(content, at)
                    values.append(value)
                self._offsets.setdefault(values[0], [])
                self.totals[values[0]] = Totals(*values[1:5], bool(values[5]))
            elif what == 4:
                self.largest_live, at = _number(content, at)
            else:
                raise self._wrong(offset, f"the index has an entry of kind {what}")
        return _HEAD.size + head.stored

    @staticmethod
    def _block(offset, begin):
        """An offset of a block that the index names."""
        if offset >= begin:
            raise ValueError("the index names a block behind its beginning")
        return offset

    def _look_for_blocks(self, offset, end):
        """Goes from block to block until something is no whole block, or to `end`."""
        while True:
            head = _Head.of(self._read(offset, max(0, min(_HEAD.size, end - offset))))
            if head is None or offset + _HEAD.size + head.stored > end:
                self.cut = offset
                return
            if head.kind == _EVENTS:
                self._offsets.setdefault(head.thread, []).append(offset)
            elif head.kind == _NAMED:
                self._names.append(offset)
            offset += _HEAD.size + head.stored

    def _load(self, offset, kind):
        head = _Head.of(self._read(offset, _HEAD.size))
        if head is None or head.kind != kind:
            raise self._wrong(offset, "no such block begins here, or its head is damaged")
        stored = self._file.read(head.stored)
        if len(stored) != head.stored:
            raise self._wrong(offset, "the file ends within the block")
        if zlib.crc32(stored) != head.sum:
            raise self._wrong(offset, "the checksum of the block's content is wrong")
        try:
            content = self._decompress(stored, head.content) if head.codec == 1 else stored
        except Exception as why:  # Each of the packages has its own.
            raise self._wrong(offset, f"its content cannot be decompressed: {why}") from why
        if len(content) != head.content:
            raise self._wrong(offset, "the content is not as long as the head says")
        return head, content


@dataclass
class _Head:
    kind: int
    codec: int
    thread: int
    count: int
    stored: int
    content: int
    first: int
    allocated: int
    time: int
    object: int
    stamp: int
    sum: int

    @staticmethod
    def of(data):
        """The head of a block, or None if none is there."""
        if len(data) != _HEAD.size:
            return None
        it = _HEAD.unpack(data)
        if it[0] != b"PLTB" or zlib.crc32(data[:68]) != it[14]:
            return None
        if max(it[6], it[7]) > _MAX_CONTENT or it[2] > 1:
            return None
        if it[1] not in (_EVENTS, _NAMED, _INDEX) and it[1] < _PASSED_OVER_BLOCK:
            return None
        return _Head(it[1], it[2], *it[4:14])


def _decompressor():
    """A function that decompresses one frame of zstd of known length."""
    for name in ("compression", "backports"):
        try:
            zstd = __import__(f"{name}.zstd", fromlist=["zstd"])
        except ImportError:
            continue
        return lambda data, length: zstd.ZstdDecompressor().decompress(data, length)
    try:
        import zstandard

        context = zstandard.ZstdDecompressor()

        def decompress(data, length):
            # The length in the frame takes precedence over `max_output_size`.
            if zstandard.frame_content_size(data) > length:
                raise ValueError("it is longer than the head says")
            return context.decompress(data, max_output_size=length)

        return decompress
    except ImportError:
        pass
    try:
        import pyarrow

        codec = pyarrow.Codec("zstd")
        return lambda data, length: codec.decompress(data, length, asbytes=True)
    except ImportError:
        raise ImportError("traces are compressed with zstd: install zstandard, or use Python 3.14") from None


def _number(data, at):
    """The number at a place, and where the next one is."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _text(data, at):
    """The text at a place, with its length before it, and where the next thing is."""
    length, at = _number(data, at)
    if at + length > len(data):
        raise ValueError("a text ends behind its block")
    return data[at : at + length].decode(), at + length


def _numbers(data):
    """All numbers of a column."""
    ends = np.flatnonzero(data < 0x80)
    if len(data) and (not len(ends) or ends[-1] != len(data) - 1):
        raise ValueError("a column ends within a number")
    starts = np.empty_like(ends)
    if len(ends):
        starts[0] = 0
        starts[1:] = ends[:-1] + 1
    lengths = ends - starts + 1
    if len(ends) and (lengths.max() > 10 or np.any(data[ends[lengths == 10]] > 1)):
        raise ValueError("a number does not fit in 64 bits")
    values = (data[starts] & 0x7F).astype(np.uint64)
    for index in range(1, int(lengths.max()) if len(ends) else 0):
        longer = np.flatnonzero(lengths > index)
        part = (data[starts[longer] + index] & 0x7F).astype(np.uint64)
        values[longer] |= part << np.uint64(7 * index)
    return values


def _unfold(values):
    """Differences that were folded: 0, 1, 2, 3 … are 0, -1, 1, -2 …, all modulo 2^64."""
    one = np.uint64(1)
    return (values >> one) ^ (np.uint64(0) - (values & one))


def _columns(content):
    """The columns by name: bytes of tags, and numbers of all others. Those that a newer version has more are
    left out."""
    count, at = _number(content, 0)
    lengths = []
    for _ in range(count):
        length, at = _number(content, at)
        lengths.append(length)
    if at + sum(lengths) != len(content):
        raise ValueError("the table of columns is wrong")
    data = np.frombuffer(content, np.uint8)
    columns = {name: np.empty(0, np.uint64) for name in _COLUMNS}
    for name, length in zip(_COLUMNS, lengths):
        column = data[at : at + length]
        columns[name] = column if name == "tag" else _numbers(column)
        at += length
    return columns


def _decode(head, content):
    columns = _columns(content)
    tag = columns["tag"]
    if len(tag) != head.count:
        raise ValueError("it has another number of events than its head says")
    kind = tag & 31
    of = [kind == which for which in range(len(NAMES))]
    low, middle, high = (tag & flag != 0 for flag in (32, 64, 128))

    def spread(name, where, change=lambda values: values):
        """The numbers of a column at the events that have them, and 0 elsewhere."""
        values = np.zeros(len(tag), np.uint64)
        if np.count_nonzero(where) != len(columns[name]):
            raise ValueError(f"column {name} has another length than its events need")
        values[where] = change(columns[name])
        return values

    timed = (of[WAIT] | of[PARK]) & middle
    pause = spread("pause", of[SLEEP] | timed)
    size = spread("size", of[ALLOC])
    if np.any(size >> np.uint64(61)):
        raise ValueError("the size of an object does not fit in 64 bits")
    size[of[ALLOC] & ~middle] *= np.uint64(8)
    # Each object has a difference from the one before: 1, and more where it is told.
    steps = spread("object", of[ALLOC] & low, _unfold)
    steps[of[ALLOC]] += np.uint64(1)
    last = np.uint64(head.object) + np.cumsum(steps, dtype=np.uint64)
    named = of[DEATH] | of[USE] | of[STORE]
    object_ = spread("named", named, lambda values: last[named] - _unfold(values))
    holder = np.where(of[STORE], object_, np.uint64(0))
    object_[of[STORE]] = 0
    object_[of[ALLOC]] = last[of[ALLOC]]
    stored = (of[STORE] | of[STORE_STATIC]) & low
    locks = of[ENTER] | of[EXIT] | of[WAIT] | of[NOTIFY]
    monitor = np.cumsum(spread("monitor", locks & ~low, _unfold), dtype=np.uint64)
    monitor[~locks] = 0
    order = np.uint64(head.stamp) + np.cumsum(spread("stamp", of[STAMP]), dtype=np.uint64)
    order[~of[STAMP]] = 0
    priority = spread("priority", of[START] & low)
    priority[of[START] & ~low] = 5
    before = np.cumsum(size, dtype=np.uint64) - size
    return Block(
        thread=head.thread,
        first=head.first,
        kind=kind,
        time=spread("compute", of[COMPUTE]) + np.where(of[SLEEP], pause, np.uint64(0)),
        object=object_,
        size=size,
        class_=spread("class", of[ALLOC] & high) + spread("holder", of[STORE_STATIC]),
        site=spread("site", of[ALLOC] & high),
        peer=spread("thread", of[START] | of[JOIN] | of[UNPARK]),
        priority=priority,
        monitor=monitor,
        timeout=np.where(timed, pause, np.uint64(0)),
        all=(of[NOTIFY] & middle).astype(np.uint64),
        order=order,
        holder=holder,
        slot=spread("slot", of[STORE] | of[STORE_STATIC]),
        target=spread("target", stored, lambda values: last[stored] - _unfold(values)),
        allocated=np.uint64(head.allocated) + before,
    )


def _clocks_after(head, block):
    """Bytes, processor time and stamp behind a block."""
    times = block.time[block.kind == COMPUTE]
    time = int(times.sum(dtype=np.uint64))
    if times.sum(dtype=np.float64) >= 1 << 63:
        # It may have passed 2^64.
        time = sum(map(int, times))
    stamps = block.order[block.kind == STAMP]
    return (
        head.allocated + int(block.size.sum(dtype=np.uint64)),
        head.time + time,
        int(stamps[-1]) if len(stamps) else head.stamp,
    )


def _first_wrong(head, block, raw, ended):
    """The first event of a block that no trace may have: its place in the block, and what is wrong with it;
    or None. `ended`: the thread has ended before the block."""
    kind = block.kind
    alloc, start, stamp = kind == ALLOC, kind == START, kind == STAMP
    orders = block.order[stamp]
    falls = np.zeros(len(kind), bool)
    falls[stamp] = orders <= np.concatenate(([np.uint64(head.stamp)], orders))[: len(orders)]
    is_null = (alloc | (kind == DEATH) | (kind == USE)) & (block.object == 0)
    is_wide = (block.peer | block.slot | block.class_ | block.site) >> np.uint64(32) != 0
    is_raw = (kind == STORE) | (kind == STORE_STATIC) | (kind == USE)
    is_unknown = (kind >= len(NAMES)) & (kind < _PASSED_OVER)
    faults = [
        (is_unknown, "its kind is unknown: a newer version wrote it, or it is damaged"),
        (alloc & (block.size == 0), "an object of 0 bytes is allocated"),
        (alloc & (block.size > _MAX_OBJECT), "an object is larger than Java's largest array"),
        (is_null | (kind == STORE) & (block.holder == 0), "it names object 0, which is null"),
        (start & ((block.priority < 1) | (block.priority > 10)), "a thread starts with no priority of Java"),
        (is_wide | (kind == STORE_STATIC) & (block.class_ == 0), "a value of it is out of range"),
        (falls, "stamps rise within a stream"),
        (is_raw & (not raw), "it belongs into raw traces, and this trace says that it is none"),
    ]
    places = [(int(np.argmax(where)), why) for where, why in faults if where.any()]
    ends = np.flatnonzero(kind == END)
    behind = 0 if ended else int(ends[0]) + 1 if len(ends) else len(kind)
    if behind < len(kind):
        places.append((behind, "it comes after the end of its thread"))
    return min(places, default=None)
