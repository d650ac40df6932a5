"""The cache that sizes itself."""

from __future__ import annotations

import functools
import gc
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from conftest import SOON, eventually
from fake import MIB, Fake, numbers

from plimsoll_memory import Principal

cachetools = pytest.importorskip("cachetools", reason="install plimsoll-memory[cachetools]")

from plimsoll_memory.cache import ENTRY, AdaptiveCache  # noqa: E402

Open = Callable[..., Principal]
Cache = AdaptiveCache[object, bytes]
BLOCK = MIB - ENTRY


@pytest.fixture
def cache(fake: Fake, opened: Open) -> Iterator[Cache]:
    """A cache that may use 50 MiB more. Values are charged by their length."""
    principal = opened()
    fake.publish(1, numbers(100 * MIB, uses=50 * MIB))
    eventually("the numbers are there", lambda: principal.read().uses == 50 * MIB)
    with AdaptiveCache[object, bytes](principal, getsizeof=len) as made:
        yield made


def test_is_a_mapping(cache: Cache) -> None:
    cache["a"] = b"1"
    cache["b"] = b"22"
    cache["a"] = b"333"
    assert dict(cache) == {"a": b"333", "b": b"22"}
    assert cache.currsize == 5 + 2 * ENTRY
    del cache["b"]
    assert "b" not in cache
    with pytest.raises(KeyError):
        cache["b"]
    assert cache.pop("a") == b"333"
    assert len(cache) == cache.currsize == 0


def test_grows_only_while_it_uses_less_than_its_limit(cache: Cache) -> None:
    for key in range(80):
        cache[key] = bytes(BLOCK)
    assert cache.currsize == 50 * MIB
    assert list(cache) == list(range(30, 80)), "the least recently used went first"
    cache[30]
    cache["x"] = bytes(BLOCK)
    assert 30 in cache
    assert 31 not in cache


def test_a_value_without_room_is_not_kept(cache: Cache, fake: Fake) -> None:
    cache["small"] = b"1"
    cache["huge"] = bytes(51 * MIB)
    assert "huge" not in cache
    assert "small" in cache, "nothing is dropped in vain"
    assert cache.setdefault("huge", bytes(51 * MIB)) == bytes(51 * MIB)


def test_gives_back_what_is_owed_in_steps(cache: Cache, fake: Fake) -> None:
    for key in range(50):
        cache[key] = bytes(BLOCK)
    deadline = time.monotonic_ns() + 60_000_000_000
    sensed = time.monotonic_ns()
    fake.publish(
        1, numbers(80 * MIB, uses=100 * MIB, owed=20 * MIB, deadline=deadline, level=1, sensed=sensed)
    )

    def told() -> list[int]:
        return [call["bytes"] for call in fake.told("Released")]

    eventually("all is given back", lambda: sum(told()) >= 20 * MIB)
    assert sum(told()) <= 23 * MIB, "and no more than a step above"
    assert 27 * MIB <= cache.currsize <= 30 * MIB
    assert 49 in cache
    assert cache._principal.read().owed == 0


def test_an_empty_cache_gives_nothing_back(cache: Cache, fake: Fake) -> None:
    fake.publish(1, numbers(80 * MIB, owed=20 * MIB, deadline=1, level=1))
    eventually("it is told", lambda: cache._principal.read().owed > 0)
    time.sleep(0.1)
    assert fake.told("Released") == []


def test_reports_its_demand(cache: Cache, fake: Fake) -> None:
    eventually("it is told", lambda: fake.told("Report"))
    first = fake.told("Report")[-1]["demand"]
    assert first == 50 * MIB + 16 * MIB
    for key in range(80):
        cache[key] = bytes(BLOCK)
    eventually("more is told", lambda: fake.told("Report")[-1]["demand"] > 100 * MIB)


def worths(fake: Fake) -> list[int]:
    return [call["worth"] for call in fake.told("Report") if "worth" in call]


def test_reports_what_more_memory_is_worth(cache: Cache, fake: Fake) -> None:
    for key in range(80):
        cache[key] = bytes(BLOCK)

    def load(key: int) -> bytes:
        time.sleep(0.02)
        return bytes(BLOCK)

    cached = cachetools.cached(cache, key=lambda key: key)(load)
    # The ghost list has six MiB, so the keys 24 to 29.
    cached(29)
    eventually("it is worth something", lambda: any(worths(fake)))
    assert max(worths(fake)) >= 20_000_000 / 7 / 5, "20 ms within some seconds, for about six MiB"


def test_a_cache_that_drops_nothing_gains_nothing(cache: Cache, fake: Fake) -> None:
    for key in range(40):
        assert cache.get(key) is None
        time.sleep(0.001)
        cache[key] = bytes(BLOCK)
    assert cache.setdefault("x", b"1") == b"1"
    assert cache.pop("y", b"2") == b"2"
    eventually("that is told", lambda: worths(fake))
    time.sleep(1.5)
    assert worths(fake) == [0]


def test_a_value_that_comes_much_later_was_no_load(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in range(80):
        cache[key] = bytes(BLOCK)
    monkeypatch.setattr("plimsoll_memory.cache.LONGEST_LOAD", 0)
    assert cache.get(29) is None
    cache[29] = bytes(BLOCK)
    assert cache._ghost._saved == 0


def test_a_largest_size(fake: Fake, opened: Open) -> None:
    principal = opened()
    with AdaptiveCache[int, bytes](principal, maxsize=4 * MIB, getsizeof=len) as small:
        for key in range(8):
            small[key] = bytes(BLOCK)
        assert list(small) == [4, 5, 6, 7]
        small[9] = bytes(5 * MIB)
        assert 9 not in small
        assert small.maxsize == 4 * MIB


@pytest.mark.parametrize(
    "policy",
    [
        cachetools.LRUCache,
        cachetools.LFUCache,
        cachetools.FIFOCache,
        cachetools.RRCache,
        functools.partial(cachetools.TTLCache, ttl=60),
    ],
)
def test_any_policy_of_cachetools(fake: Fake, opened: Open, policy: Callable[..., object]) -> None:
    principal = opened()
    fake.publish(1, numbers(60 * MIB, uses=50 * MIB))
    eventually("the numbers are there", lambda: principal.limit == 60 * MIB)
    with AdaptiveCache[int, bytes](principal, getsizeof=len, policy=policy) as made:
        for key in range(20):
            made[key] = bytes(BLOCK)
        assert made.currsize == 10 * MIB


def test_the_decorators_of_cachetools(cache: Cache) -> None:
    calls = []

    def work(number: int) -> bytes:
        calls.append(number)
        return bytes(number)

    cached = cachetools.cached(cache)(work)
    assert [len(cached(number)) for number in (1, 2, 1, 2)] == [1, 2, 1, 2]
    assert calls == [1, 2]


def test_many_threads(cache: Cache, fake: Fake) -> None:
    errors = []

    def work(seed: int) -> None:
        chance = random.Random(seed)
        try:
            for _ in range(500):
                key = chance.randrange(100)
                value = cache.get(key)
                assert value is None or len(value) == key
                cache[key] = bytes(key)
                cache.pop(chance.randrange(100), None)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for owed in range(20):
        fake.publish(1, numbers(90 * MIB, owed=owed * 1000, deadline=owed, uses=50 * MIB))
    for thread in threads:
        thread.join(SOON)
    assert errors == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_may_use_it(cache: Cache) -> None:
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            cache["busy"] = b"1"

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(10):
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    cache["child"] = b"2"
                    code = int(cache.get("child") != b"2")
                finally:
                    os._exit(code)
            _, status = os.waitpid(pid, 0)
            assert status == 0
    finally:
        stop.set()
        writer.join(SOON)


def test_nothing_is_left_of_a_closed_cache(opened: Open) -> None:
    principal = opened(alone=True)
    threads = threading.active_count()
    made = AdaptiveCache[int, bytes](principal)
    made[1] = b"1"
    made.close()
    assert len(made) == 0
    eventually("its thread ended", lambda: threading.active_count() == threads)
    del made
    gc.collect()


PROGRAM = """
import sys, time, itertools, os
from plimsoll_memory import Principal
from plimsoll_memory.cache import AdaptiveCache
principal = Principal(sys.argv[1])
# Each is to have its share. Caches that report their worth lend to each other beyond that.
report = principal.report
principal.report = lambda worth=None, **known: report(**known)
cache = AdaptiveCache(principal)
block = os.urandom(256)
for key in itertools.count():
    cache[key] = block * 1024
    if key % 16 == 0:
        now = principal.read()
        print(cache.currsize >> 20, now.uses >> 20, now.limit >> 20, now.owed >> 20, flush=True)
        time.sleep(0.002)
"""


@pytest.mark.skipif("PLIMSOLLD" not in os.environ, reason="set PLIMSOLLD to the path of the broker")
def test_two_caches_share_the_memory_of_a_real_broker(directory: str) -> None:
    """Each keeps near its limit, and the second gets its half."""
    socket = os.path.join(directory, "broker.sock")
    environment = {**os.environ, "PLIMSOLL_SOCKET": socket}
    command = [os.environ["PLIMSOLLD"], "--directory", directory, "--budget", "256M"]
    processes: list[subprocess.Popen[str]] = []
    processes.append(
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True)
    )
    lines: dict[str, list[list[int]]] = {"one": [], "two": []}

    def follow(name: str) -> None:
        program = [sys.executable, "-W", "ignore", "-c", PROGRAM, name]
        process = subprocess.Popen(program, env=environment, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout is not None
        with process.stdout as output:
            for line in output:
                lines[name].append([int(word) for word in line.split()])

    def last(name: str) -> list[int]:
        return lines[name][-1] if lines[name] else [0, 0, 0, 0]

    threads = [threading.Thread(target=follow, args=(name,)) for name in lines]
    try:
        eventually("the broker listens", lambda: os.path.exists(socket))
        threads[0].start()
        eventually("the first is full", lambda: last("one")[1] > 180)
        threads[1].start()
        eventually("the second has its half", lambda: last("two")[1] > 100)

        def keeps_to_its_limit(name: str) -> bool:
            _, uses, limit, owed = last(name)
            return owed == 0 and limit < 150 and uses > limit * 8 // 10

        for name in lines:
            eventually(f"{name} has what its limit allows", functools.partial(keeps_to_its_limit, name))
    finally:
        for process in processes:
            process.kill()
            process.wait()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
