"""Principals of a broker that behaves well, dies and comes back."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable

import pytest
from conftest import SOON, await_event, eventually
from fake import MIB, Fake, Script, numbers

from plimsoll_memory import (
    Adaptive,
    EventKind,
    Level,
    Principal,
    Reading,
    RefusedError,
    Source,
)

Open = Callable[..., Principal]
Brokers = Callable[..., Fake]


def test_registers_reads_and_hears(fake: Fake, opened: Open) -> None:
    principal = opened(weight=20, priority=3, maximum=5 << 30)
    assert fake.registered == [
        {
            "name": "test",
            "kind": "process",
            "pid": os.getpid(),
            "weight": 20,
            "priority": 3,
            "max": 5 << 30,
            "adapter": "self",
        }
    ]
    assert principal.id == 1
    assert principal.wait(SOON).kind is EventKind.JOINED
    reading = principal.read()
    assert (reading.limit, reading.available, reading.uses) == (100 * MIB, 200 * MIB, 50 * MIB)
    assert reading.source is Source.BROKER

    # Reading needs the page only; a wake-up needs a message.
    fake.publish(1, numbers(90 * MIB), silently=True)
    assert principal.limit == principal.read().limit == 90 * MIB
    fake.publish(1, numbers(80 * MIB))
    event = principal.wait(SOON)
    assert (event.kind, event.reading.limit) == (EventKind.CHANGED, 80 * MIB)

    fake.publish(1, numbers(60 * MIB, owed=MIB, deadline=77, level=1))
    event = principal.wait(SOON)
    assert (event.kind, event.reading.owed) == (EventKind.OWED, MIB)
    assert (event.reading.deadline, event.reading.level) == (77, Level.WARNING)
    fake.publish(1, numbers(60 * MIB))
    event = principal.wait(SOON)
    assert (event.kind, event.reading.owed) == (EventKind.RELIEF, 0)
    assert principal.wait(0).kind is EventKind.TIMEOUT

    principal.close()
    eventually("the broker sees the end", lambda: fake.gone == [1])
    assert principal.read().limit == 60 * MIB, "the last numbers can be read"
    assert principal.read().source is Source.STALE
    assert principal.wait(None).kind is EventKind.TIMEOUT


def test_changes_that_come_faster_are_merged(fake: Fake, opened: Open) -> None:
    principal = opened()
    await_event(principal, EventKind.JOINED)
    for limit in range(50, 90):
        fake.publish(1, numbers(limit * MIB))
    last = [0]

    def is_last() -> bool:
        last[0] = principal.wait(1).reading.limit
        return last[0] == 89 * MIB

    eventually("the last one is told", is_last)


def test_tells_the_broker_what_it_is_told(fake: Fake, opened: Open) -> None:
    principal = opened()
    principal.report(live=5)
    principal.report(collections=6, demand=7 * MIB)
    principal.released(10)
    principal.released(20)
    principal.set(weight=7)
    principal.attach(4321)
    eventually("the report arrives", lambda: len(fake.told("Report")) > 0)

    def all_arrived() -> bool:
        released = sum(call["bytes"] for call in fake.told("Released"))
        report = {"id": 1, "live": 5, "collections": 6, "demand": 7 * MIB}
        return released == 30 and fake.told("Report")[-1] == report

    eventually("all of it arrives", all_arrived)
    assert fake.told("Set") == [{"id": 1, "weight": 7}]
    assert fake.told("Attach") == [{"id": 1, "pid": 4321}]


def test_a_debt_that_was_paid_is_not_owed_again(fake: Fake, opened: Open) -> None:
    principal = opened()
    await_event(principal, EventKind.JOINED)
    before = time.monotonic_ns()
    fake.publish(1, numbers(60 * MIB, owed=8 * MIB, deadline=77, level=1, uses=68 * MIB, sensed=before))
    await_event(principal, EventKind.OWED)
    principal.released(5 * MIB)
    now = principal.read()
    assert (now.owed, now.uses) == (3 * MIB, 63 * MIB)
    principal.released(3 * MIB)
    now = principal.read()
    assert (now.owed, now.deadline, now.uses, now.level) == (0, 0, 60 * MIB, Level.NORMAL)
    assert await_event(principal, EventKind.RELIEF).reading.owed == 0
    # The broker has looked again, and found memory still in use.
    later = time.monotonic_ns()
    fake.publish(1, numbers(60 * MIB, owed=MIB, deadline=99, level=1, uses=61 * MIB, sensed=later))
    assert await_event(principal, EventKind.OWED).reading.owed == MIB
    assert principal.read().uses == 61 * MIB


def test_works_alone_where_no_broker_runs(brokers: Brokers, opened: Open) -> None:
    principal = opened()
    reading = principal.read()
    assert (reading.source, principal.id) == (Source.LOCAL, None)
    assert reading.uses > 0
    assert reading.limit >= reading.uses - reading.owed
    assert reading.available >= reading.limit
    assert "no broker runs" in str(principal.last_error)
    principal.released(5)
    principal.report(live=9)
    principal.set(weight=33, priority=-4)
    principal.attach(os.getpid())

    # A broker starts, and is told everything that the program reported before.
    fake = brokers()
    assert await_event(principal, EventKind.JOINED).reading.limit == 100 * MIB
    assert principal.read().source is Source.BROKER
    eventually("the report is told", lambda: {"id": 1, "live": 9} in fake.told("Report"))
    assert (fake.registered[0]["weight"], fake.registered[0]["priority"]) == (33, -4)
    assert fake.told("Released") == [], "that is old news"
    assert principal.last_error is None


def test_alone_means_no_broker(fake: Fake) -> None:
    with Principal("never", alone=True) as principal:
        assert principal.read().source is Source.LOCAL
        assert principal.wait(1.2).kind is not EventKind.JOINED
    assert fake.registered == []


def test_falls_back_at_once_when_the_broker_dies_and_rejoins(brokers: Brokers, opened: Open) -> None:
    fake = brokers()
    principal = opened(weight=20)
    child = principal.child("child", weight=5)
    assert fake.registered[1]["parent"] == 1
    assert "pid" not in fake.registered[1]
    for joined in (principal, child):
        await_event(joined, EventKind.JOINED)
    principal.set(priority=2, own_weight=9)
    fake.kill()
    reading = await_event(principal, EventKind.BROKER_LOST).reading
    assert reading.source is Source.LOCAL
    assert reading.limit <= 100 * MIB, "the dead broker's limit still bounds"
    assert principal.read().source is Source.LOCAL
    assert principal.id is None
    principal.released(1)
    await_event(child, EventKind.BROKER_LOST)

    fake = brokers(first=50)
    assert await_event(principal, EventKind.JOINED).reading.limit == 100 * MIB
    await_event(child, EventKind.JOINED)
    asked = fake.registered[0]
    assert (asked["weight"], asked["priority"], asked["pid"]) == (20, 2, os.getpid())
    assert fake.told("Set") == [{"id": 50, "own_weight": 9}]
    assert fake.registered[1]["parent"] == 50, "the child follows its parent"
    fake.publish(50, numbers(70 * MIB))
    eventually("the new page is read", lambda: principal.limit == 70 * MIB)
    child.close()


def test_a_group_has_no_process(fake: Fake, opened: Open) -> None:
    with opened().child("batch", group=True, priority=-10, maximum=1 << 30) as group:
        expected = {"name": "batch", "kind": "group", "parent": 1, "priority": -10, "max": 1 << 30}
        assert fake.registered[1] == expected
        assert group.id == 2
    eventually("it ends", lambda: fake.gone == [2])


def test_a_process_that_is_a_principal_already_is_found(brokers: Brokers, opened: Open) -> None:
    fake = brokers(Script.STRICT)
    # As `plimsoll run` registers a program: with a weight, without an adapter.
    outer = opened("outer", weight=40, adapter=None)
    inner = opened("cache", weight=7)
    assert (outer.id, inner.id) == (1, 1)
    assert fake.told("Adapt") == [{"id": 1, "adapter": "self"}]
    passive = opened("passive", adapter=None)
    assert passive.id == 1
    assert len(fake.told("Adapt")) == 1, "who steers nothing says nothing"
    passive.close()
    fake.publish(1, numbers(60 * MIB))
    eventually("both follow", lambda: outer.limit == inner.limit == 60 * MIB)
    for joined in (outer, inner):
        await_event(joined, EventKind.JOINED)
    # After a crash of the broker, the program waits for the principal of `plimsoll run` to come back.
    fake.kill()
    await_event(inner, EventKind.BROKER_LOST)
    fake = brokers(Script.STRICT, first=9)
    await_event(outer, EventKind.JOINED)
    await_event(inner, EventKind.JOINED)
    assert (outer.id, inner.id) == (9, 9)
    assert len(fake.registered) == 1
    assert fake.registered[0]["weight"] == 40
    # If that principal does not come back, the program registers itself.
    fake.kill()
    outer.close()
    fake = brokers(Script.STRICT, first=20)
    eventually("it registers", lambda: inner.id == 20)
    assert fake.registered[0]["weight"] == 7


def test_the_environment_names_a_principal(fake: Fake, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = opened("owner", pid=os.getppid())
    assert owner.id == 1
    monkeypatch.setenv("PLIMSOLL_SOCKET", fake.socket)
    monkeypatch.setenv("PLIMSOLL_ID", "1")
    monkeypatch.setenv("PLIMSOLL_PAGE", fake.page(1))
    with Principal("library", from_environment=True) as library:
        assert (library.id, library.limit) == (1, 100 * MIB)
        assert len(fake.registered) == 1, "no second registration"
        library.released(3)
        eventually("it speaks for it", lambda: fake.told("Released") == [{"id": 1, "bytes": 3}])
    fake.publish(1, numbers(20 * MIB))
    eventually("its end is not the principal's end", lambda: owner.limit == 20 * MIB)
    # The number is that of an earlier broker, so it is found by the process of an ancestor.
    monkeypatch.setenv("PLIMSOLL_ID", "77")
    monkeypatch.setenv("PLIMSOLL_PAGE", fake.page(77))
    with Principal("library", from_environment=True) as library:
        await_event(library, EventKind.JOINED)
        assert library.id == 1


def test_a_program_without_a_name_gives_itself_one(
    brokers: Brokers, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = brokers(Script.STRICT)
    opened("python3", adapter=None)
    monkeypatch.setenv("PLIMSOLL_ID", "1")
    monkeypatch.setenv("PLIMSOLL_UNNAMED", "1")
    opened("my-cache")
    assert fake.told("Adapt") == [{"id": 1, "adapter": "self", "name": "my-cache"}]


def test_one_wait_is_interrupted(opened: Open) -> None:
    principal = opened(alone=True)
    kinds: list[EventKind] = []
    waiting = threading.Thread(target=lambda: kinds.append(principal.wait().kind))
    waiting.start()
    principal.interrupt()
    waiting.join(SOON)
    assert len(kinds) == 1


def test_caches_get_one_function(fake: Fake, opened: Open) -> None:
    seen: list[tuple[int, int]] = []

    def change(now: Reading) -> int:
        seen.append((now.limit, now.owed))
        return now.owed

    with Adaptive(opened(), change):
        eventually("it is called at once", lambda: seen[:1] == [(100 * MIB, 0)])
        fake.publish(1, numbers(50 * MIB, owed=4 * MIB, deadline=1))
        eventually("it is told", lambda: (50 * MIB, 4 * MIB) in seen)

        def is_told() -> bool:
            return sum(int(call["bytes"]) for call in fake.told("Released")) >= 4 * MIB

        eventually("the broker is told what was let go", is_told)


def test_a_refusal_leaves_the_setting_as_it_was(fake: Fake, opened: Open) -> None:
    principal = opened(weight=5)
    await_event(principal, EventKind.JOINED)
    dispatch = fake._dispatch
    refusal = {"error": "io.plimsoll.NotPermitted", "parameters": {"message": "not yours"}}
    fake._dispatch = lambda *call: refusal if "Set" in call[1]["method"] else dispatch(*call)  # type: ignore
    with pytest.raises(RefusedError, match="not yours") as caught:
        principal.set(weight=6)
    assert caught.value.name == "io.plimsoll.NotPermitted"
    assert principal.id == 1, "the connection is fine"
    assert principal._shared.wish.standing == {"weight": 5}


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("a\nb", {}),
        ("", {}),
        ("x" * 65, {}),
        ("\u202e", {}),
        ("\udc80", {}),
        ("x", {"weight": 0}),
        ("x", {"weight": 10_001}),
        ("x", {"priority": 101}),
        ("x", {"maximum": 1}),
        ("x", {"pid": 0}),
        ("x", {"adapter": "A b"}),
        ("x", {"adapter": ""}),
    ],
)
def test_bad_parameters_are_refused_before_they_are_sent(name: str, settings: dict[str, int]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        Principal(name, alone=True, **settings)  # type: ignore[arg-type]


def test_bad_reports_are_refused(opened: Open) -> None:
    principal = opened(alone=True)
    for bad in (-1, 1 << 64):
        with pytest.raises(ValueError, match="out of range"):
            principal.report(demand=bad)
        with pytest.raises(ValueError, match="out of range"):
            principal.released(bad)
    with pytest.raises(TypeError):
        principal.released(1.5)  # type: ignore[arg-type]


def test_a_principal_that_is_dropped_ends(fake: Fake) -> None:
    principal = Principal("dropped", socket=fake.socket)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del principal
        gc.collect()
    assert [warning.category for warning in caught] == [ResourceWarning]
    eventually("it ends", lambda: fake.gone == [1])


def test_threads_take_no_signal_that_is_meant_for_the_program(opened: Open) -> None:
    opened(alone=True)
    thread = next(thread for thread in threading.enumerate() if thread.name == "plimsoll")
    with open(f"/proc/self/task/{thread.native_id}/status") as status:
        blocked = next(line.split()[1] for line in status if line.startswith("SigBlk:"))
    for signal, is_blocked in ((2, True), (15, True), (17, True), (7, False), (11, False)):
        assert bool(int(blocked, 16) >> (signal - 1) & 1) is is_blocked, signal


def test_loading_does_nothing_and_a_program_ends_without_closing(fake: Fake) -> None:
    code = f"""
import os, threading
import plimsoll_memory
assert threading.active_count() == 1 and len(os.listdir("/proc/self/fd")) <= 4
principal = plimsoll_memory.Principal("ends", socket={fake.socket!r})
print(principal.limit)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=SOON, check=True
    )
    assert done.stdout.strip() == str(100 * MIB)
    assert done.stderr == ""
    eventually("the broker sees the end", lambda: fake.gone == [1])
