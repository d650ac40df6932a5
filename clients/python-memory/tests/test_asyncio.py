"""Events as an asynchronous iterator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from conftest import SOON
from fake import MIB, Fake, numbers

from plimsoll_memory import EventKind, Principal

Open = Callable[..., Principal]


def run(work: Any) -> Any:
    return asyncio.run(asyncio.wait_for(work, SOON))


def test_events_come_and_end_with_the_principal(fake: Fake, opened: Open) -> None:
    principal = opened()

    async def follow() -> list[EventKind]:
        kinds = []
        async for event in principal.events():
            kinds.append(event.kind)
            if event.kind is EventKind.JOINED:
                fake.publish(1, numbers(60 * MIB, owed=MIB, deadline=77, level=1))
            elif event.kind is EventKind.OWED:
                principal.released(event.reading.owed)
            elif event.kind is EventKind.RELIEF:
                asyncio.get_running_loop().run_in_executor(None, principal.close)
        return kinds

    kinds = run(follow())
    assert kinds[:3] == [EventKind.JOINED, EventKind.OWED, EventKind.RELIEF]


def test_the_loop_goes_on_while_nothing_happens(opened: Open) -> None:
    principal = opened(alone=True)

    async def idle() -> None:
        events = principal.events()
        with pytest.raises(asyncio.TimeoutError):  # noqa: PT012
            while True:
                await asyncio.wait_for(events.__anext__(), 0.2)
        await events.aclose()

    run(idle())
    assert principal._shared.listeners == [], "nothing is left of the iterator"


def test_a_loop_that_was_closed_disturbs_nobody(fake: Fake, opened: Open) -> None:
    principal = opened()

    async def leave() -> None:
        async for _ in principal.events():
            break

    run(leave())
    fake.publish(1, numbers(60 * MIB))
    assert principal.wait(SOON).kind is not EventKind.TIMEOUT


def test_two_tasks_share_the_events(fake: Fake, opened: Open) -> None:
    principal = opened()
    seen: list[EventKind] = []

    async def follow() -> None:
        async for event in principal.events():
            seen.append(event.kind)

    async def both() -> None:
        tasks = [asyncio.ensure_future(follow()) for _ in range(2)]
        while EventKind.JOINED not in seen:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(principal.close)
        await asyncio.gather(*tasks)

    run(both())
    assert seen.count(EventKind.JOINED) == 1
