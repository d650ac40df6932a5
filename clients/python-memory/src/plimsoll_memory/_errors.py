"""The errors. Each message says what happened, to what, and what to do."""

from __future__ import annotations


class PlimsollError(Exception):
    """The base of all errors of this package. Reading the numbers never raises one."""


class AbsentError(PlimsollError):
    """There is no broker to talk to: none runs, it closed the connection, or it did not answer in time."""


class UntrustedError(PlimsollError):
    """Another user could have put this socket there."""


class ProtocolError(PlimsollError):
    """An answer of the broker does not follow the interface."""


class RefusedError(PlimsollError):
    """The broker refused a call.

    Attributes:
        name: The full name of the error, for example ``io.plimsoll.NotPermitted``.
        parameter: The parameter that the broker does not take, if it named one.
    """

    def __init__(self, name: str, message: str, parameter: str | None = None) -> None:
        """Takes the name for programs and the message for people."""
        super().__init__(message)
        self.name = name
        self.parameter = parameter


class PageError(PlimsollError):
    """The availability page cannot be used. The numbers come from the connection then."""


class ResourceError(PlimsollError):
    """The kernel gave no thread or descriptor."""


class ForkedError(PlimsollError):
    """A forked child may only read the numbers of the principal that it inherited."""
