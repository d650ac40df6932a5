"""The watcher: the thread that keeps a principal's numbers current.

While joined it sleeps until the broker tells of a change, the program has something to send, or a second is
over (to check the heartbeat). While alone it senses, and tries to join with growing pauses.
"""

from __future__ import annotations

import random
import select
import time
from dataclasses import dataclass

from plimsoll_memory._connection import Connection
from plimsoll_memory._errors import AbsentError, PageError, PlimsollError, RefusedError, UntrustedError
from plimsoll_memory._join import NO_SUCH_PRINCIPAL, change_of, join
from plimsoll_memory._local import Local
from plimsoll_memory._page import STALE_AFTER, Page, is_stale
from plimsoll_memory._reading import Reading, Source
from plimsoll_memory._shared import Shared

LOOK = 1.0
"""How often the heartbeat is checked while joined, s."""
FIRST_PAUSE = 0.05
"""The first pause between tries to join, s; it doubles."""
LAST_PAUSE = 5.0
"""The longest such pause, s."""
FINDS = 6
"""After a broker is gone: how often to look for a principal that another process registered, before the
program registers by itself. With the pauses this takes some seconds, in which `plimsoll run` rejoins and
brings weight and name back."""


@dataclass
class Bond:
    """The principal at a broker."""

    id: int
    page: str
    stream: Connection
    last: Reading
    """The last numbers that were told."""
    heard: int
    """When the broker last gave a sign of life other than on the page, ns."""
    takes_worth: bool = True
    """Whether the broker is not known to be older than the field `worth` of a report."""


class Watcher:
    """The state of the watcher's thread, which alone uses all but `shared`."""

    def __init__(self, shared: Shared) -> None:
        """Makes the first try to join, on the caller's thread.

        Raises:
            PlimsollError: The broker refuses, or answers against the protocol. That no broker answers is no
                error, nor that another user took its place.
        """
        self._shared = shared
        self._local = Local(shared.wish.pid)
        self._bond: Bond | None = None
        self._page: Page | None = None
        self._next_try = time.monotonic()
        self._pause = FIRST_PAUSE
        self._was_joined = False
        self._finds = 0
        try:
            self._try_join()
        except (AbsentError, UntrustedError):
            self._sense()
        except RefusedError as error:
            # The environment is older than the broker. Look for the principal by its process from now on.
            if error.name != NO_SUCH_PRINCIPAL or shared.wish.existing is None:
                raise
            self._was_joined = True
            self._sense()

    def run(self) -> None:
        """Watches until the principal is closed."""
        try:
            while not self._shared.is_closing:
                try:
                    self._sleep()
                    self._step()
                except Exception as error:
                    # Numbers that nobody renews would be worse than those of local sensing.
                    self._shared.set_error(error)
                    self._part()
                    time.sleep(LOOK)
        finally:
            self.end()

    def end(self) -> None:
        """Closes all that is open. The last numbers can still be read."""
        shared = self._shared
        self._bond = self._page = None
        self._local.rest()
        shared.disconnect()
        shared.show(None, Source.STALE, shared.read()._replace(source=Source.STALE))
        shared.waker.close()

    def _sleep(self) -> None:
        shared = self._shared
        poll = select.poll()
        poll.register(shared.waker.fileno(), select.POLLIN)
        if self._bond is not None:
            poll.register(self._bond.stream.fileno(), select.POLLIN)
            pause = LOOK
        else:
            pause = self._local.interval()
            if shared.wish.places:
                pause = min(max(self._next_try - time.monotonic(), 0), pause)
        poll.poll(pause * 1000)
        shared.waker.drain()
        with shared.changed:
            shared.changed.notify_all()

    def _step(self) -> None:
        if self._shared.is_closing:
            return
        if self._bond is not None:
            try:
                self._tend(self._bond)
            except PlimsollError as error:
                self._shared.set_error(error)
                self._part()
        elif time.monotonic() >= self._next_try and self._shared.wish.places:
            try:
                self._try_join()
            except PlimsollError:
                self._sense()
        else:
            self._sense()

    # Joined.

    def _tend(self, bond: Bond) -> None:
        message = bond.stream.newest()
        if message is not None:
            bond.last = change_of(bond.stream, bond.stream.parse(message)).reading
            bond.heard = bond.last.heartbeat
        if self._page is not None and not self._page.is_usable():
            self._open_page(bond)
            self._tell(bond)
        elif message is not None:
            self._tell(bond)
        self._send(bond)
        control = self._shared.control
        if control is None or control.is_broken:
            raise AbsentError("the connection that registered the principal ended")
        self._feel_pulse(bond)

    def _open_page(self, bond: Bond) -> None:
        """Shows the broker's page. If that fails, the numbers come from the stream."""
        self._page = None
        try:
            self._page = Page(bond.page, bond.id)
        except PageError as error:
            self._shared.set_error(error)

    def _tell(self, bond: Bond) -> None:
        self._shared.show(self._page, Source.BROKER, bond.last)
        self._shared.tell(bond.last)

    def _send(self, bond: Bond) -> None:
        released, report = self._shared.take_outbox()
        if released > 0:
            self._call("Released", {"bytes": released})
        if not bond.takes_worth:
            report.pop("worth", None)
        if report:
            self._report(bond, report)

    def _report(self, bond: Bond, report: dict[str, int]) -> None:
        try:
            self._shared.call("Report", report)
        except RefusedError as error:
            if error.parameter != "worth" or report.pop("worth", None) is None:
                self._shared.set_error(error)
                return
            # An older broker refuses the whole report for a field that it does not know.
            bond.takes_worth = False
            if report:
                self._call("Report", report)

    def _call(self, method: str, parameters: dict[str, int]) -> None:
        try:
            self._shared.call(method, parameters)
        except RefusedError as error:
            # A refusal is a mistake of the program. The connection is fine.
            self._shared.set_error(error)

    def _feel_pulse(self, bond: Bond) -> None:
        """Checks whether the broker lives.

        A broker that hangs keeps its connections, but its page grows old. A call tells whether the broker or
        only the page is dead.
        """
        now = time.monotonic_ns()
        if self._page is not None:
            if not is_stale(self._page.heartbeat(), now):
                return
            self._shared.show(self._page, Source.STALE, bond.last._replace(source=Source.STALE))
        elif now - bond.heard < STALE_AFTER // 3:
            return
        self._shared.ping()
        bond.heard = time.monotonic_ns()
        bond.last = bond.last._replace(heartbeat=bond.heard)
        # The broker lives. If its page does not, the stream has the numbers from now on.
        self._page = None
        self._tell(bond)

    def _part(self) -> None:
        """The broker is gone. Changes to local numbers at once, and tries to rejoin soon."""
        now = time.monotonic_ns()
        self._local.inherit(self._bond.last.limit if self._bond is not None else 0, now)
        self._bond = self._page = None
        self._pause = FIRST_PAUSE
        self._next_try = time.monotonic() + self._pause
        self._shared.set_alone(self._show_local())

    # Alone.

    def _sense(self) -> None:
        self._shared.tell(self._show_local())

    def _show_local(self) -> Reading:
        self._local.set_pid(self._shared.wish.pid)
        reading = self._local.sense(time.monotonic_ns())
        self._shared.show(None, Source.LOCAL, reading)
        return reading

    def _try_join(self) -> None:
        wish = self._shared.wish
        try:
            joined = join(wish, self._was_joined, self._finds > 0)
        except PlimsollError as error:
            self._shared.set_error(error)
            # So that a thousand programs do not rejoin at once.
            self._next_try = time.monotonic() + random.uniform(self._pause / 2, self._pause)
            self._pause = min(self._pause * 2, LAST_PAUSE)
            self._finds = max(self._finds - 1, 0)
            raise
        first = joined.first.reading
        self._bond = Bond(joined.id, joined.page, joined.stream, first, first.heartbeat)
        self._was_joined = True
        self._finds = FINDS if joined.is_found and wish.existing is None else 0
        self._pause = FIRST_PAUSE
        self._local.rest()
        self._shared.error = None
        self._open_page(self._bond)
        self._shared.show(self._page, Source.BROKER, first)
        if not self._shared.set_joined(wish, joined):
            self._part()
