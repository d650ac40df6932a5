"""Fixtures and waits that all tests share."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fake import Fake, Script

from plimsoll_memory import Event, EventKind, Principal

SOON = 60.0
"""Any wait ends long before, also on a busy machine, s."""


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PLIMSOLL_SOCKET", "PLIMSOLL_ID", "PLIMSOLL_PAGE", "PLIMSOLL_UNNAMED"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def directory() -> Iterator[str]:
    """A short path, because the path of a socket has at most 107 bytes."""
    path = tempfile.mkdtemp(prefix="plimsoll-test-", dir="/tmp")
    yield path
    shutil.rmtree(path)


@pytest.fixture
def brokers(directory: str) -> Iterator[Callable[..., Fake]]:
    """Starts scripted brokers, all at the same socket. They end with the test."""
    started: list[Fake] = []

    def start(script: Script = Script.GOOD, **settings: Any) -> Fake:
        started.append(Fake(directory, script, **settings))
        return started[-1]

    yield start
    for fake in started:
        fake.kill()


@pytest.fixture
def fake(brokers: Callable[..., Fake]) -> Fake:
    """A broker that behaves well."""
    return brokers()


@pytest.fixture
def opened(directory: str) -> Iterator[Callable[..., Principal]]:
    """Opens principals of the scripted broker. They are closed with the test."""
    all_opened: list[Principal] = []

    def open_one(name: str = "test", **settings: Any) -> Principal:
        socket = os.path.join(directory, "broker.sock")
        # The broker answers; any delay comes from a busy machine.
        all_opened.append(Principal(name, **{"socket": socket, "timeout": SOON, **settings}))
        return all_opened[-1]

    yield open_one
    for principal in all_opened:
        principal.close()


def eventually(what: str, done: Callable[[], object]) -> None:
    """Waits until `done`."""
    deadline = time.monotonic() + SOON
    while not done():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.005)


def await_event(principal: Principal, kind: EventKind) -> Event:
    """The next event of this kind; others are skipped."""
    deadline = time.monotonic() + SOON
    while True:
        event = principal.wait(1)
        if event.kind is kind:
            return event
        assert time.monotonic() < deadline, (event, principal.last_error)


def fds() -> int:
    """The open descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))
