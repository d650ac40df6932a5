"""After a fork the child may only read."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable

import pytest
from conftest import await_event, eventually
from fake import MIB, Fake, numbers

from plimsoll_memory import EventKind, ForkedError, Principal, Source

Open = Callable[..., Principal]
# From Python 3.12 on, each fork of a process with threads warns.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def in_child(work: Callable[[], None]) -> int:
    """Runs `work` in a forked child. Returns the child's number."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
            os._exit(1)
        os._exit(0)
    return pid


def assert_done(pid: int) -> None:
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_a_forked_child_may_only_read(fake: Fake, opened: Open) -> None:
    principal = opened()
    await_event(principal, EventKind.JOINED)

    def child() -> None:
        fds = os.listdir("/proc/self/fd")
        assert principal.read().limit == 100 * MIB
        assert principal.read().source is Source.BROKER
        principal.report(demand=5)
        principal.released(7)
        for refused in (
            lambda: principal.wait(0),
            lambda: principal.set(weight=1),
            lambda: principal.child("x"),
            lambda: principal.attach(1),
        ):
            with pytest.raises(ForkedError):
                refused()
        principal.close()
        assert principal.read().limit == 100 * MIB
        assert len(os.listdir("/proc/self/fd")) <= len(fds)

    assert_done(in_child(child))
    assert fake.told("Report") == fake.told("Released") == []
    assert principal.id == 1, "the parent is joined as before"
    fake.publish(1, numbers(60 * MIB))
    eventually("the parent follows", lambda: principal.limit == 60 * MIB)


def test_a_child_follows_the_page_and_notices_that_the_broker_is_gone(fake: Fake, opened: Open) -> None:
    principal = opened()

    def child() -> None:
        eventually("the child follows", lambda: principal.limit == 60 * MIB)
        eventually("it notices", lambda: principal.read().source is Source.STALE)

    pid = in_child(child)
    fake.publish(1, numbers(60 * MIB))
    time.sleep(0.2)
    fake.is_frozen = True
    assert_done(pid)


def test_a_child_that_lives_longer_does_not_keep_the_registration(fake: Fake, opened: Open) -> None:
    principal = opened()
    pid = in_child(signal.pause)
    principal.close()
    eventually("the broker sees the end", lambda: fake.gone == [1])
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_a_child_may_open_a_principal_of_its_own(fake: Fake, opened: Open) -> None:
    opened()

    def child() -> None:
        with Principal("own", socket=fake.socket) as own:
            assert own.id == 2
            assert own.wait(60).kind is EventKind.JOINED

    assert_done(in_child(child))


def test_a_program_that_was_stopped_goes_on(fake: Fake) -> None:
    def child() -> None:
        with Principal("stopped", socket=fake.socket, timeout=5) as own:
            own.wait(60)
            os.kill(os.getpid(), signal.SIGSTOP)
            eventually("it has the numbers", lambda: own.read().limit == 60 * MIB)
            assert own.read().source is Source.BROKER

    pid = in_child(child)
    os.waitpid(pid, os.WUNTRACED)
    time.sleep(4)
    fake.publish(1, numbers(60 * MIB))
    os.kill(pid, signal.SIGCONT)
    assert_done(pid)
