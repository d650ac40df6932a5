"""Joins a broker: registers (or finds the principal again) and subscribes."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from plimsoll_memory import _connection, _wire
from plimsoll_memory._connection import Connection
from plimsoll_memory._errors import AbsentError, RefusedError
from plimsoll_memory._kernel import parent_of

if TYPE_CHECKING:
    from plimsoll_memory._shared import Shared
    from plimsoll_memory._socket import Place

NO_SUCH_PRINCIPAL = "io.plimsoll.NoSuchPrincipal"
ALREADY_REGISTERED = "io.plimsoll.AlreadyRegistered"
ANCESTORS = 64
"""How many processes, from ours upwards, are checked for being a principal's."""
LOOKS_FOR = 1.0
"""How long to wait until the principal that the environment names has its process, s."""
LOOK_AGAIN = 0.01
"""The pause between two such looks, s."""


@dataclass(frozen=True)
class Wish:
    """The settings of the program. Sent to every new broker."""

    name: str
    pid: int | None
    """The process; None for a group, or while it is still to come."""
    places: list[Place]
    """The sockets to try, in order; none for a program that is to stay alone."""
    timeout: float
    """Longest wait for an answer, s."""
    standing: Mapping[str, int] = field(default_factory=dict)
    """Weight, priority and maximum (`max`), as they are sent."""
    own: Mapping[str, int] = field(default_factory=dict)
    """Weight and priority of its own memory against its children's."""
    adapter: str | None = None
    is_group: bool = False
    parent: Shared | None = None
    """The principal above, which lives in this process. Its number changes at a rejoin."""
    existing: tuple[int, str] | None = None
    """A principal that another process registered: its number and page."""
    named: int | None = None
    """The number of the principal that the environment names."""
    is_unnamed: bool = False
    """Nobody gave that principal a name, so the one that the program gives itself prevails."""

    def is_own(self) -> bool:
        """Whether it is for this process and not a child of another principal."""
        return self.pid == os.getpid() and self.parent is None


class Joined(NamedTuple):
    """The result of a join."""

    id: int
    """The principal's number at this broker."""
    page: str
    """Path of its page."""
    is_found: bool
    """Whether another process registered it."""
    control: Connection
    """The connection for calls. If it registered the principal, the principal ends with it."""
    stream: Connection
    """The connection on which the broker tells of changes."""
    first: _wire.Changed
    """The numbers at the time of the join."""


class Found(NamedTuple):
    """A principal at a broker."""

    id: int
    page: str
    is_found: bool


def join(wish: Wish, was_joined: bool, is_expected: bool) -> Joined:
    """Joins the first broker that answers.

    `was_joined`: the principal was joined to a broker before. `is_expected`: another process had registered
    its process, and is expected to do so again.

    Raises:
        PlimsollError: No broker answers, or the one that answers refuses.
    """
    control = _connection.first(wish.places, wish.timeout)
    stream = None
    try:
        found = _find_or_register(control, wish, was_joined, is_expected)
        if found.is_found:
            _steer(control, wish, found.id)
        stream = Connection(control.place, wish.timeout)
        stream.send(_wire.INTERFACE + "Subscribe", {"id": found.id}, more=True)
        first = _first_change(stream, wish, found)
    except BaseException:
        control.close()
        if stream is not None:
            stream.close()
        raise
    return Joined(found.id, found.page, found.is_found, control, stream, first)


def _find_or_register(control: Connection, wish: Wish, was_joined: bool, is_expected: bool) -> Found:
    if wish.existing is not None and not was_joined:
        return Found(*wish.existing, True)
    if wish.existing is not None:
        return _find(control, wish, ANCESTORS)
    if is_expected:
        return _find(control, wish, 1)
    if wish.named is not None and wish.is_own():
        _await_process(control, wish.named)
    try:
        return _register(control, wish)
    except RefusedError as error:
        # `plimsoll run`, `plimsoll adopt` or another part of the program registered the process.
        if error.name != ALREADY_REGISTERED or not wish.is_own():
            raise
        return _find(control, wish, 1)


def _first_change(stream: Connection, wish: Wish, found: Found) -> _wire.Changed:
    now = time.monotonic()
    try:
        reply = stream.receive(now + wish.timeout)
    except RefusedError as error:
        # It was registered a moment ago and is gone, so the broker has ended the connection.
        if error.name == NO_SUCH_PRINCIPAL and not found.is_found:
            raise AbsentError(f"the broker at {stream.place.path} closed the connection") from error
        raise
    if reply is None:
        raise AbsentError(f"the broker at {stream.place.path} did not answer within {wish.timeout} s")
    return change_of(stream, reply)


def change_of(stream: Connection, reply: _wire.Reply) -> _wire.Changed:
    """The numbers in an answer to `Subscribe`. Raises AbsentError after the last one, or ProtocolError."""
    if not reply.continues:
        raise AbsentError(f"the broker at {stream.place.path} ended the stream of changes")
    try:
        return _wire.changed(reply.parameters, time.monotonic_ns())
    except ValueError as error:
        raise stream.against(str(error)) from error


def _register(control: Connection, wish: Wish) -> Found:
    parameters: dict[str, object] = {
        "name": wish.name,
        "kind": "group" if wish.is_group else "process",
        "pid": wish.pid,
        "parent": _number_of(wish.parent),
        "adapter": wish.adapter,
        **wish.standing,
    }
    # A maximum of 0 is none.
    parameters["max"] = parameters.get("max") or None
    answer = control.call(_wire.INTERFACE + "Register", parameters)
    try:
        registered = _wire.registered(answer)
    except ValueError as error:
        raise control.against(str(error)) from error
    if wish.own:
        control.call(_wire.INTERFACE + "Set", {"id": registered.id, **wish.own})
    return Found(registered.id, registered.page, False)


def _number_of(parent: Shared | None) -> int | None:
    if parent is None:
        return None
    number = parent.number
    if number is None:
        raise AbsentError("a child of a principal needs a broker that knows its parent")
    return number


def _await_process(control: Connection, number: int) -> None:
    """Waits until the principal has its process.

    `plimsoll run` tells the broker the process only after the start, and a program that registered before
    that would become a second principal.
    """
    deadline = time.monotonic() + LOOKS_FOR
    while time.monotonic() < deadline:
        for principal in _list(control):
            if principal.get("id") == number:
                if principal.get("kind") == "group" or principal.get("pid") is not None:
                    return
                break
        else:
            return
        time.sleep(LOOK_AGAIN)


def _steer(control: Connection, wish: Wish, number: int) -> None:
    """Tells the adapter of a principal that another process registered, and perhaps its name.

    Only if its process is this one: a child that merely inherited the environment must not do so.
    """
    calls_itself = wish.is_unnamed and wish.existing is None
    if not wish.is_own() or (wish.adapter is None and not calls_itself):
        return
    own = _with_pid(_list(control), os.getpid())
    if own is None or own.get("id") != number:
        return
    present = own.get("adapter")
    adapter = wish.adapter if wish.adapter is not None else present
    call: dict[str, object] = {"id": number, "adapter": adapter}
    if calls_itself and own.get("name") != wish.name:
        try:
            control.call(_wire.INTERFACE + "Adapt", {**call, "name": wish.name})
        except RefusedError:
            pass  # A broker that is older knows no names here.
        else:
            return
    if adapter != present:
        control.call(_wire.INTERFACE + "Adapt", call)


def _find(control: Connection, wish: Wish, generations: int) -> Found:
    """Finds the principal of our process or of an ancestor, up to this many `generations` away.

    After a broker's restart the principal's number in the environment is no longer valid.
    """
    listing = _list(control)
    pid: int | None = wish.pid if wish.pid is not None else os.getpid()
    for _ in range(generations):
        if pid is None or pid < 1:
            break
        found = _with_pid(listing, pid)
        if found is not None:
            try:
                number = _wire.natural(found, "id")
            except ValueError as error:
                raise control.against(str(error)) from error
            page = found.get("page")
            return Found(number, page if isinstance(page, str) else control.place.page_of(number), True)
        pid = parent_of(pid)
    raise RefusedError(NO_SUCH_PRINCIPAL, "no principal holds this process yet; `plimsoll ps` lists them")


def _list(control: Connection) -> list[dict[str, Any]]:
    """All principals, each before its children."""
    answer = control.call(_wire.INTERFACE + "List", {}, most=_wire.MOST_LISTED)
    top = answer.get("principals")
    found: list[dict[str, Any]] = _objects(top)
    for principal in found:
        found.extend(_objects(principal.get("children")))
    return found


def _objects(listed: object) -> list[dict[str, Any]]:
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []


def _with_pid(listing: list[dict[str, Any]], pid: int) -> dict[str, Any] | None:
    return next((principal for principal in listing if principal.get("pid") == pid), None)
