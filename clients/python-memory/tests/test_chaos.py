"""A broker that changes its behaviour all the time. PLIMSOLL_CHAOS_SECONDS makes it longer."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable

from conftest import await_event, eventually, fds
from fake import MIB, Fake, Script, numbers

from plimsoll_memory import EventKind, PlimsollError, Principal

SECONDS = float(os.environ.get("PLIMSOLL_CHAOS_SECONDS", "5"))


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def disturb(fake: Fake, principal: Principal, chance: random.Random) -> None:
    """One thing that a broker may do."""
    number = principal.id
    act = chance.randrange(8)
    if act == 0:
        fake.script = chance.choice(list(Script))
    elif act == 1:
        fake.is_frozen = not fake.is_frozen
    elif act == 2 and number is not None:
        fake.flood(number, chance.choice([b"\0" * 4096, b"{}\0" * 4096, b"\xff" * (1 << 20)]))
    elif act == 3 and number is not None:
        with contextlib.suppress(OSError):
            os.truncate(fake.page(number), chance.randrange(200))
    else:
        fake.script = Script.GOOD
        new = numbers(
            chance.randrange(200) * MIB, owed=chance.randrange(3) * MIB, deadline=chance.randrange(9)
        )
        with contextlib.suppress(KeyError):
            fake.publish(number or 0, new)


def use(principal: Principal, chance: random.Random) -> None:
    """One thing that a program may do."""
    assert principal.read().limit >= 0
    assert principal.limit >= 0
    event = principal.wait(0.01)
    if event.kind is EventKind.OWED:
        principal.released(event.reading.owed)
    principal.report(demand=chance.randrange(1 << 30))
    with contextlib.suppress(PlimsollError):
        principal.set(weight=chance.randrange(1, 100))


def test_nothing_leaks_while_the_broker_does_anything(brokers: Callable[..., Fake]) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)  # noqa: T201
    chance = random.Random(seed)
    fake = brokers()
    fake.delay = 0.05
    principal = Principal("chaos", socket=fake.socket, timeout=0.1)
    counted: list[int] = []
    end = time.monotonic() + SECONDS
    while time.monotonic() < end or len(counted) < 20:
        disturb(fake, principal, chance)
        use(principal, chance)
        counted.append(resident())
        if chance.randrange(40) == 0:
            fake.kill()
            fake = brokers(first=chance.randrange(1, 1000))
            fake.delay = 0.05
    # One connection may be on its way while they are counted, at both ends.
    assert fds() < 40
    half = len(counted) // 2
    assert max(counted[half:]) < max(counted[:half]) + 32 * MIB
    fake.script, fake.is_frozen = Script.GOOD, False
    fake.kill()
    before = fds()
    fake = brokers(first=5000)
    await_event(principal, EventKind.JOINED)
    eventually("it has the numbers", lambda: principal.limit == 100 * MIB)
    principal.close()
    fake.kill()
    eventually("nothing is left", lambda: fds() <= before)
