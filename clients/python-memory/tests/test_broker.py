"""The client with the real broker, whose path is in PLIMSOLLD."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import SOON, await_event, eventually

from plimsoll_memory import EventKind, Principal, Source
from plimsoll_memory._connection import Connection
from plimsoll_memory._socket import Place

MIB = 1 << 20
PLIMSOLLD = os.environ.get("PLIMSOLLD")
pytestmark = pytest.mark.skipif(not PLIMSOLLD, reason="set PLIMSOLLD to the path of the broker")
BUDGET = 256 * MIB

Open = Callable[..., Principal]
Start = Callable[[], "subprocess.Popen[bytes]"]


def listing(directory: str) -> list[dict[str, Any]]:
    """All principals at the top."""
    connection = Connection(Place(f"{directory}/broker.sock"), SOON)
    try:
        principals = connection.call("io.plimsoll.List", {}, most=1 << 24)["principals"]
    finally:
        connection.close()
    assert isinstance(principals, list)
    return principals


@pytest.fixture
def broker(directory: str) -> Iterator[Start]:
    """Starts brokers that serve one test only, and share out 256 MiB."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        command = [str(PLIMSOLLD), "--directory", directory, "--budget", "256M"]
        started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

        def answers() -> bool:
            assert started[-1].poll() is None, "the broker ended"
            try:
                listing(directory)
            except Exception:
                return False
            return True

        eventually("the broker answers", answers)
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def sleepers() -> Iterator[Callable[[], int]]:
    """Starts processes that do nothing. None descends from another."""
    started = []

    def start() -> int:
        started.append(subprocess.Popen(["sleep", "600"]))
        return started[-1].pid

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_joins_survives_and_rejoins(
    directory: str, broker: Start, opened: Open, sleepers: Callable[[], int]
) -> None:
    first = broker()
    light = opened("light", weight=10, pid=sleepers())
    heavy = opened("heavy", weight=30, pid=sleepers())
    for principal in (light, heavy):
        await_event(principal, EventKind.JOINED)

    def shares() -> tuple[int, int]:
        return light.read().share, heavy.read().share

    eventually(
        "shares are by weight", lambda: shares()[0] > 0 and abs(shares()[0] * 3 - shares()[1]) <= 12288
    )

    def total() -> int:
        while True:
            before = light.limit
            found = before + heavy.limit
            # The broker raises one of them only after it lowered the other.
            if light.limit == before:
                return found

    assert 0 < total() <= BUDGET
    light.set(weight=30)
    eventually("a new weight counts", lambda: abs(shares()[0] - shares()[1]) <= 4096)
    light.set(maximum=50 * MIB)
    eventually("a maximum counts", lambda: 0 < light.limit <= 50 * MIB)
    light.set(maximum=0)
    eventually("and is taken away", lambda: light.read().available > 50 * MIB)

    first.kill()
    first.wait()
    for principal in (light, heavy):
        assert await_event(principal, EventKind.BROKER_LOST).reading.source is Source.LOCAL
        assert principal.read().source is Source.LOCAL
    assert light.read().uses > 0

    broker()
    for principal in (light, heavy):
        await_event(principal, EventKind.JOINED)
        assert principal.read().source is Source.BROKER
    weights = {shown["name"]: shown["weight"] for shown in listing(directory)}
    assert weights == {"light": 30, "heavy": 30}, "with what they were given last"
    light.close()
    eventually("it ends", lambda: [shown["name"] for shown in listing(directory)] == ["heavy"])


def test_a_broker_that_is_stopped_for_a_while(broker: Start, opened: Open) -> None:
    process = broker()
    principal = opened("waits", timeout=0.5)
    await_event(principal, EventKind.JOINED)
    process.send_signal(signal.SIGSTOP)
    assert await_event(principal, EventKind.BROKER_LOST).reading.source is Source.LOCAL
    process.send_signal(signal.SIGCONT)
    await_event(principal, EventKind.JOINED)
    eventually("the numbers are the broker's", lambda: principal.read().source is Source.BROKER)


HOLDER = """
import sys
blocks = []
for line in sys.stdin:
    count = int(line)
    if count > 0:
        blocks += [bytearray(b"x") * (1 << 20) for _ in range(count)]
    else:
        del blocks[count:]
    print(len(blocks), flush=True)
"""


class Holder:
    """A process that holds as many blocks of 1 MiB as it is told to."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", HOLDER]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self._process.pid
        self.holds = 0

    def change(self, count: int) -> None:
        """Takes blocks, or gives them back if `count` is negative."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        self.holds = int(self._process.stdout.readline())

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def holders() -> Iterator[list[Holder]]:
    """Two such processes. None descends from the other."""
    both = [Holder(), Holder()]
    yield both
    for holder in both:
        holder.end()


def test_owes_and_gives_back(broker: Start, opened: Open, holders: list[Holder]) -> None:
    broker()
    holder, neighbour = holders
    cache = opened("cache", pid=holder.pid)

    def fill() -> bool:
        now = cache.wait(0.02).reading
        if now.owed == 0 and now.uses + 4 * MIB < now.limit:
            holder.change(2)
        return holder.holds > 150

    eventually("the cache is full", fill)
    other = opened("other", pid=neighbour.pid, weight=300)
    other.report(demand=200 * MIB)
    owing = await_event(cache, EventKind.OWED).reading
    assert owing.owed > 0
    assert owing.deadline > 0

    def pay() -> bool:
        count = min(-(-cache.read().owed // MIB), holder.holds)
        if count:
            holder.change(-count)
            cache.released(count * MIB)
        now = other.wait(0.02).reading
        if now.uses + 4 * MIB < now.limit:
            neighbour.change(2)
        return neighbour.holds > 120

    eventually("the neighbour gets its part", pay)
    eventually("the debt is paid", lambda: pay() and cache.read().owed == 0)
    assert 0 < cache.limit < 150 * MIB
    other.close()
    eventually("the memory comes back", lambda: cache.limit > 150 * MIB)


def test_children_share_what_their_parent_gets(
    directory: str, broker: Start, opened: Open, sleepers: Callable[[], int]
) -> None:
    broker()
    parent = opened("parent")
    small = parent.child("small", weight=10)
    large = parent.child("large", weight=30, group=True)
    small.attach(sleepers())
    (shown,) = listing(directory)
    assert {child["name"]: child["weight"] for child in shown["children"]} == {"small": 10, "large": 30}
    parent.set(own_weight=50)
    assert small.id is not None
    large.close()
    small.close()
    eventually("they end", lambda: listing(directory)[0]["children"] == [])


def test_under_plimsoll_run(directory: str, broker: Start) -> None:
    """The process is a principal already: it is found, and keeps its weight."""
    plimsoll = os.path.join(os.path.dirname(str(PLIMSOLLD)), "plimsoll")
    if not os.path.exists(plimsoll):
        pytest.skip(f"no {plimsoll}")
    broker()
    code = """
import plimsoll_memory
with plimsoll_memory.Principal("itself", weight=7) as own:
    assert own.read().source is plimsoll_memory.Source.BROKER, own.last_error
    print(own.id)
with plimsoll_memory.Principal("library", from_environment=True, adapter=None) as own:
    print(own.id, own.limit > 0)
"""
    socket = f"{directory}/broker.sock"
    command = [
        plimsoll,
        "run",
        "--socket",
        socket,
        "-n",
        "outer",
        "-w",
        "40",
        "--",
        sys.executable,
        "-c",
        code,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SOON, check=False)
    assert done.returncode == 0, done.stderr
    number, again = done.stdout.splitlines()
    assert again == f"{number} True"
