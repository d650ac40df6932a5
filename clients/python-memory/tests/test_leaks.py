"""Principals that open and close leave nothing behind."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from conftest import eventually, fds
from fake import Fake, Script

from plimsoll_memory import PlimsollError, Principal


def test_a_hundred_principals_leave_nothing_behind(brokers: Callable[..., Fake]) -> None:
    before, threads = fds(), threading.active_count()
    fake = brokers()
    for _ in range(100):
        with Principal("leaks", socket=fake.socket, timeout=60) as principal:
            assert principal.id is not None
    eventually("all ended", lambda: len(fake.gone) == 100)
    fake.kill()
    eventually("all descriptors are closed", lambda: fds() <= before)
    eventually("all threads ended", lambda: threading.active_count() <= threads)


def test_failed_joins_leave_nothing_behind(brokers: Callable[..., Fake]) -> None:
    before = fds()
    for script in (Script.GARBAGE, Script.REFUSES, Script.LIES, Script.TRUNCATED, Script.QUEUE_PAGE):
        fake = brokers(script)
        for _ in range(10):
            with contextlib.suppress(PlimsollError):
                Principal("leaks", socket=fake.socket, timeout=0.2).close()
        fake.kill()
    eventually("all descriptors are closed", lambda: fds() <= before)
