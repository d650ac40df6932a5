"""Principals of brokers that hang, send nonsense, cut connections off, or lose their pages."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable

import pytest
from conftest import SOON, await_event, eventually
from fake import MIB, Fake, Script, numbers

from plimsoll_memory import EventKind, Principal, ProtocolError, RefusedError, ResourceError, Source

Open = Callable[..., Principal]
Brokers = Callable[..., Fake]
MIB_LIMIT = 100 * MIB


def test_a_broker_that_hangs_is_left_after_a_while_and_blocks_nobody(fake: Fake, opened: Open) -> None:
    principal = opened(timeout=0.2)
    await_event(principal, EventKind.JOINED)
    fake.freeze()
    principal.set(weight=5)
    assert await_event(principal, EventKind.BROKER_LOST).reading.source is Source.LOCAL
    begin = time.monotonic()
    principal.report(live=1)
    principal.released(1)
    principal.read()
    principal.close()
    assert time.monotonic() - begin < SOON
    assert principal._shared.wish.standing == {"weight": 5}, "kept for the next join"


def test_a_broker_whose_heart_stops_is_noticed_without_a_call(fake: Fake, opened: Open) -> None:
    principal = opened(timeout=0.3)
    await_event(principal, EventKind.JOINED)
    fake.freeze()
    await_event(principal, EventKind.BROKER_LOST)
    assert principal.read().source is Source.LOCAL


def test_a_page_that_grows_old_is_replaced_by_the_stream(fake: Fake, opened: Open) -> None:
    principal = opened()
    await_event(principal, EventKind.JOINED)
    fake.is_frozen = True
    first = principal.read().heartbeat
    eventually("the heartbeat is fresh again", lambda: principal.read().heartbeat > first + 2_000_000_000)
    eventually("the numbers are the broker's", lambda: principal.read().source is Source.BROKER)
    assert principal.limit == MIB_LIMIT
    fake.publish(1, numbers(50 * MIB))
    eventually("the stream tells", lambda: principal.limit == 50 * MIB)


@pytest.mark.parametrize(
    "script",
    [
        Script.SILENT,
        Script.LATE,
        Script.DRIPS,
        Script.TRUNCATED,
        Script.CLOSES,
        Script.DIES_AFTER_REGISTER,
    ],
)
def test_bad_brokers_cost_a_timeout_at_the_most(brokers: Brokers, opened: Open, script: Script) -> None:
    fake = brokers(script)
    fake.delay = 2.0
    principal = opened(timeout=0.1)

    def is_alone() -> bool:
        error = principal.last_error or ""
        is_said = "did not answer" in error or "closed" in error
        return is_said and principal.read().source is Source.LOCAL

    eventually("alone, and it is said why", is_alone)
    fake.script = Script.GOOD
    assert await_event(principal, EventKind.JOINED).reading.limit == MIB_LIMIT


@pytest.mark.parametrize(
    "script", [Script.GARBAGE, Script.ENDLESS, Script.NESTED, Script.DIGITS, Script.LIES]
)
def test_brokers_that_talk_nonsense_are_named(brokers: Brokers, opened: Open, script: Script) -> None:
    brokers(script)
    with pytest.raises(ProtocolError, match="against the protocol"):
        opened()


def test_a_refusal_is_raised(brokers: Brokers, opened: Open) -> None:
    brokers(Script.REFUSES)
    with pytest.raises(RefusedError, match="raise max_principals") as caught:
        opened()
    assert caught.value.name == "io.plimsoll.TooMany"


@pytest.mark.parametrize(
    "script", [Script.GARBAGE, Script.ENDLESS, Script.NESTED, Script.DIGITS, Script.LIES, Script.REFUSES]
)
def test_nonsense_later_only_makes_it_alone(brokers: Brokers, opened: Open, script: Script) -> None:
    fake = brokers()
    principal = opened(timeout=0.5)
    await_event(principal, EventKind.JOINED)
    fake.script = script
    fake.flood(1, b"\xff nonsense\0")
    await_event(principal, EventKind.BROKER_LOST)
    fake.script = Script.GOOD
    await_event(principal, EventKind.JOINED)


def test_a_late_answer_in_time_is_taken(brokers: Brokers, opened: Open) -> None:
    brokers(Script.LATE).delay = 0.1
    assert opened().read().source is Source.BROKER


def test_megabytes_that_nobody_asked_for(fake: Fake, opened: Open) -> None:
    principal = opened()
    await_event(principal, EventKind.JOINED)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    message = b'{"continues": true, "parameters": {"id": 1, "generation": 9, "numbers": '
    message += b'{"limit": 7340032, "available": 1, "owed": 0, "deadline": 0, "uses": 1, "share": 1, '
    message += b'"level": "unheard"}}}\0'
    data = message * (8 * MIB // len(message))
    fake.flood(1, data)
    eventually("the last one is told", lambda: principal.wait(0.1).reading.limit == 7 * MIB)
    fake.flood(1, b"x" * (8 * MIB))
    await_event(principal, EventKind.BROKER_LOST)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 64 << 10, f"grew by {grown} KiB"
    await_event(principal, EventKind.JOINED)


@pytest.mark.parametrize(
    "script",
    [
        Script.NO_PAGE,
        Script.SHORT_PAGE,
        Script.NEW_VERSION,
        Script.WRONG_ID,
        Script.QUEUE_PAGE,
        Script.BAD_PATH,
    ],
)
def test_without_a_usable_page_the_stream_tells_the_numbers(
    brokers: Brokers, opened: Open, script: Script
) -> None:
    fake = brokers(script)
    principal = opened()
    assert (principal.limit, principal.read().source) == (MIB_LIMIT, Source.BROKER)
    assert "page" in str(principal.last_error)
    fake.publish(1, numbers(30 * MIB))
    eventually("the stream tells", lambda: principal.limit == 30 * MIB)
    eventually("and the event", lambda: principal.wait(1).reading.limit == 30 * MIB)


def test_a_replaced_page_changes_nothing(fake: Fake, opened: Open) -> None:
    principal = opened()
    os.unlink(fake.page(1))
    with open(fake.page(1), "wb") as file:
        file.write(b"\xff" * 4096)
    fake.publish(1, numbers(40 * MIB))
    assert principal.limit == 40 * MIB, "the descriptor is of the file that was there"
    assert principal.read().source is Source.BROKER


@pytest.mark.parametrize("size", [0, 20, 100])
def test_a_truncated_page_costs_nobody_the_life(fake: Fake, opened: Open, size: int) -> None:
    principal = opened()
    # A broker that goes on would write to its own descriptor, which would make the file longer again.
    fake.is_frozen = True
    os.truncate(fake.page(1), size)
    for _ in range(10_000):
        reading = principal.read()
        assert reading.limit == MIB_LIMIT
        assert reading.source is not Source.LOCAL
    assert principal.limit == MIB_LIMIT
    eventually("the stream takes over", lambda: principal.read().source is Source.BROKER)
    fake.publish(1, numbers(50 * MIB))
    eventually("and goes on", lambda: principal.limit == 50 * MIB)
    fake.kill()
    eventually("then local sensing", lambda: principal.read().source is Source.LOCAL)


def test_a_page_of_a_newer_version_in_place(fake: Fake, opened: Open) -> None:
    principal = opened()
    os.pwrite(fake.pages[1].fd, b"\x02", 8)
    eventually("the stream takes over", lambda: principal._shared.view.page is None)
    assert (principal.limit, principal.read().source) == (MIB_LIMIT, Source.BROKER)


def test_a_writer_that_died_while_it_wrote(fake: Fake, opened: Open) -> None:
    principal = opened()
    await_event(principal, EventKind.JOINED)
    os.pwrite(fake.pages[1].fd, b"\x03", 16)
    assert principal.read().limit == MIB_LIMIT


def test_exhausted_descriptors_cost_nothing_but_the_page(brokers: Brokers, opened: Open) -> None:
    fake = brokers()
    principal = opened(timeout=0.5)
    await_event(principal, EventKind.JOINED)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    held = []
    try:
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        pass
    try:
        assert principal.read().limit == MIB_LIMIT
        with pytest.raises(ResourceError, match="cannot make"):
            opened("another")
        fake.script = Script.SILENT
        fake.flood(1, b"nonsense\0")
        await_event(principal, EventKind.BROKER_LOST)
        for _ in range(20):
            principal.wait(0.05)
            reading = principal.read()
            assert reading.source is Source.LOCAL
            assert reading.limit > 0
    finally:
        for fd in held:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    fake.script = Script.GOOD
    await_event(principal, EventKind.JOINED)


def test_an_older_broker_gets_reports_without_worth(brokers: Brokers, opened: Open) -> None:
    fake = brokers(Script.OLD)
    principal = opened()
    await_event(principal, EventKind.JOINED)
    principal.report(demand=5 * MIB, worth=7)
    old = {"id": 1, "demand": 5 * MIB}
    eventually("it is told the rest", lambda: fake.told("Report")[1:] == [old])
    assert fake.told("Report")[0] == {**old, "worth": 7}
    assert principal.last_error is None
    principal.report(live=3, worth=8)
    eventually("it is told more", lambda: len(fake.told("Report")) > 2)
    assert fake.told("Report")[2:] == [{**old, "live": 3}], "not with it again"
    fake.kill()
    newer = brokers()
    await_event(principal, EventKind.JOINED)
    whole = {**old, "live": 3, "worth": 8}
    eventually("a newer one is told all", lambda: whole in newer.told("Report"))
