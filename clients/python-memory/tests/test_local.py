"""Local sensing."""

from __future__ import annotations

import os
import random
from pathlib import Path

from plimsoll_memory import Level, _cgroup, _kernel, _local
from plimsoll_memory._local import GRACE, PATIENCE, Domain, Local, Sensed, decide
from plimsoll_memory._reading import NOTHING

MIB = 1 << 20
U64 = (1 << 64) - 1


def sensed(capacity: int, room: int, uses: int) -> Sensed:
    return Sensed(capacity * MIB, room * MIB, uses * MIB)


def test_takes_a_part_of_what_is_free_and_gives_back_when_nothing_is() -> None:
    calm = decide(sensed(1600, 832, 100), U64, NOTHING, 5)
    assert (calm.limit, calm.available) == (300 * MIB, 900 * MIB)
    assert (calm.owed, calm.deadline, calm.level) == (0, 0, Level.NORMAL)
    short = decide(sensed(1600, 12, 100), U64, calm, 5)
    assert (short.owed, short.limit, short.deadline) == (20 * MIB, 80 * MIB, 5 + PATIENCE)
    assert short.level is Level.WARNING
    late = decide(sensed(1600, 12, 100), U64, short, short.deadline + 1)
    assert late.deadline == short.deadline, "a debt keeps its deadline"
    assert late.level is Level.CRITICAL


def test_never_more_than_there_is() -> None:
    numbers = random.Random(7)
    for _ in range(2000):
        capacity = numbers.randrange(1 << numbers.randrange(1, 51))
        room = numbers.randrange(capacity + 1)
        uses = numbers.randrange(capacity - room + 1)
        bound = numbers.randrange(1 << 64)
        now = decide(Sensed(capacity, room, uses), bound, NOTHING, numbers.randrange(1 << 62))
        assert now.limit <= min(uses + room, bound)
        assert now.available <= uses + room
        assert now.owed <= uses
        assert (now.owed > 0) == (now.deadline > 0)


def test_a_dead_brokers_limit_holds_for_a_while() -> None:
    local = Local(os.getpid())
    local.inherit(7 * MIB, 1000)
    assert local.sense(2000).limit <= 7 * MIB
    after = local.sense(1000 + GRACE)
    assert after.uses > 0
    assert local._bound is None


def test_small_changes_are_not_told() -> None:
    reading = decide(sensed(1600, 832, 100), U64, NOTHING, 5)
    assert _local.is_close(reading, reading._replace(limit=reading.limit + MIB))
    assert not _local.is_close(reading, reading._replace(limit=reading.limit + 4 * MIB))
    assert not _local.is_close(reading, reading._replace(level=Level.WARNING))
    assert not _local.is_close(reading, reading._replace(owed=1))


def test_senses_without_any_process_and_for_one_that_is_gone() -> None:
    assert Local(None).sense(1).uses == 0
    gone = Local((1 << 31) - 1).sense(1)
    assert gone.uses == 0
    assert gone.limit > 0


def test_senses_without_proc() -> None:
    local = Local(os.getpid())
    local._find_domain = _fail  # type: ignore[method-assign]
    assert local.sense(1).available > 0


def _fail() -> Domain:
    raise OSError("no /proc")


def test_the_machines_memory() -> None:
    text = b"""MemTotal:       1000 kB
MemFree:         100 kB
MemAvailable:    300 kB
Inactive(file):   90 kB
Dirty:            40 kB
SwapCached:       10 kB
SReclaimable:     40 kB
"""
    assert _kernel.machine(text) == (1000 << 10, 820 << 10)
    assert _kernel.machine(text.replace(b"300 kB", b"150 kB")) == (1000 << 10, 850 << 10)
    assert _kernel.machine(text.replace(b"MemAvailable", b"Other")) == (1000 << 10, 820 << 10)


def test_memory_of_a_group_that_can_be_dropped() -> None:
    v2 = b"anon 100\nshmem 50\nfile_dirty 10\ninactive_file 60\nswapcached 99\n"
    v2 += b"inactive_anon 120\nactive_anon 60\n"
    assert _cgroup.droppable(v2, 2, True) == 50 + 30
    v1 = b"rss 1\ninactive_file 5\ntotal_rss 100\ntotal_inactive_file 60\ntotal_dirty 80\n"
    assert _cgroup.droppable(v1, 1, True) == 0
    assert _cgroup.droppable(v1, 1, False) == 5


def test_where_a_group_is() -> None:
    names = _cgroup.membership(b"12:cpu,memory:/a/b (deleted)\n4:pids:/x\n0::/c:d\nnonsense\n1:memory\n")
    assert names == {1: "/a/b", 2: "/c:d"}
    text = (
        b"30 24 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
        b"31 24 0:27 /a /sys/fs/with\\040blank rw shared:9 - cgroup cgroup rw,memory\n"
        b"32 24 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n33 broken\n"
    )
    unified, memory = _cgroup.mounts(text)
    assert (unified.version, unified.point, memory.version) == (2, "/sys/fs/cgroup/unified", 1)
    assert memory.point == "/sys/fs/with blank"
    assert memory.below("/a/b") == "/sys/fs/with blank/b"
    assert memory.below("/a") == "/sys/fs/with blank"
    assert memory.below("/ab") is memory.below("/") is memory.below("/a/../b") is None
    assert unified.below("/") == "/sys/fs/cgroup/unified"

    def chosen(has_memory: bool) -> object:
        return _cgroup.choose(names, [unified, memory], lambda _: has_memory)

    assert chosen(True) == (2, "/sys/fs/cgroup/unified/c:d", "/sys/fs/cgroup/unified")
    assert chosen(False) == (1, "/sys/fs/with blank/b", "/sys/fs/with blank")
    assert _cgroup.choose({}, [unified, memory], lambda _: True) is None


def group(directory: Path, limit: str, usage: int, inactive: int) -> _cgroup.Group:
    directory.mkdir()
    (directory / "memory.max").write_text(limit)
    (directory / "memory.current").write_text(str(usage))
    (directory / "memory.stat").write_text(f"inactive_file {inactive}\n")
    return _cgroup.Group(2, str(directory))


def test_the_group_with_the_least_room_binds(tmp_path: Path) -> None:
    machine = (1000, 500)
    assert _local.tightest(machine, []) == (1000, 500)
    unlimited = group(tmp_path / "unlimited", "max\n", 900, 0)
    wide = group(tmp_path / "wide", "5000\n", 4999, 0)
    far = group(tmp_path / "far", "900\n", 100, 0)
    assert _local.tightest(machine, [unlimited, wide, far]) == (1000, 500)
    tight = group(tmp_path / "tight", "400\n", 390, 90)
    assert _local.tightest(machine, [far, tight]) == (400, 100)
    full = group(tmp_path / "full", "300\n", 310, 0)
    assert _local.tightest(machine, [tight, full]) == (300, 0)


def test_this_process_is_in_some_domain() -> None:
    capacity, room = Domain(os.getpid()).read()
    assert 0 <= room <= capacity
    assert capacity > 0
    assert Domain(None).read()[0] >= capacity


def test_parents() -> None:
    assert _kernel.parent_of(os.getpid()) == os.getppid()
    assert _kernel.parent_of((1 << 31) - 1) is None
