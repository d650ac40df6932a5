"""Messages to and from the broker: JSON objects, each ended by a NUL byte (Varlink)."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from typing import Any, NamedTuple

from plimsoll_memory._errors import RefusedError
from plimsoll_memory._reading import Level, Reading, Source

INTERFACE = "io.plimsoll."
GET_INFO = "org.varlink.service.GetInfo"
MOST_SENT = 64 * 1024
"""Longest message to the broker, bytes."""
MOST_READ = 64 * 1024
"""Longest answer that is read, but for a listing, bytes."""
MOST_LISTED = 16 * 1024 * 1024
"""Longest listing, bytes."""
U64 = (1 << 64) - 1

LEVELS = {"normal": Level.NORMAL, "warning": Level.WARNING, "critical": Level.CRITICAL}
# Marks that change the direction or the line on a terminal.
TURNING = frozenset(
    "\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"
)


class Reply(NamedTuple):
    """An answer."""

    continues: bool
    """Whether more answers to the same call follow."""
    parameters: dict[str, Any]
    """Its content."""


class Registered(NamedTuple):
    """The broker's grant."""

    id: int
    """The principal's number."""
    page: str
    """Path of its availability page."""
    pressure: str
    """Path of a socket that speaks systemd's memory pressure protocol."""
    weight: int
    """The weight that it was given."""
    priority: int
    """The priority that it was given."""


class Changed(NamedTuple):
    """The numbers of a principal, as a subscriber is told."""

    id: int
    reading: Reading


def encode_call(
    method: str, parameters: Mapping[str, object], *, more: bool = False, oneway: bool = False
) -> bytes:
    """A call as it is sent. Parameters that are None are left out.

    Raises:
        ValueError: It is longer than the broker accepts.
    """
    known = {name: value for name, value in parameters.items() if value is not None}
    call: dict[str, object] = {"method": method, "parameters": known}
    if more:
        call["more"] = True
    if oneway:
        call["oneway"] = True
    message = json.dumps(call).encode()
    if len(message) > MOST_SENT:
        raise ValueError(f"the message would have {len(message)} bytes, the broker takes {MOST_SENT}")
    return message + b"\0"


def _bounded_int(text: str) -> int:
    # Python needs minutes for a number of a million digits.
    if len(text) > 20:
        raise ValueError("a number has too many digits")
    return int(text)


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is no JSON")


def parse_reply(message: bytes) -> Reply:
    """Parses a message of the broker.

    Raises:
        RefusedError: It is an error.
        ValueError: It is no answer.
    """
    try:
        reply = json.loads(message.decode(), parse_int=_bounded_int, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("the answer is nested too deeply") from None
    if not isinstance(reply, dict):
        raise ValueError("the answer is no JSON object")
    parameters = reply.get("parameters")
    if parameters is None:
        parameters = {}
    if not isinstance(parameters, dict):
        raise ValueError("the parameters are no JSON object")
    error = reply.get("error")
    if error is not None:
        if not isinstance(error, str):
            raise ValueError("the name of the error is no text")
        raise _refusal(error, parameters)
    continues = reply.get("continues", False)
    if not isinstance(continues, bool):
        raise ValueError("`continues` is neither true nor false")
    return Reply(continues, parameters)


def _refusal(name: str, parameters: dict[str, Any]) -> RefusedError:
    shown = name if name.isprintable() else ascii(name)
    shown = shown if len(shown) <= 80 else shown[:80] + "…"
    told, named = parameters.get("message"), parameters.get("parameter")
    return RefusedError(
        shown,
        told[:1000] if isinstance(told, str) else shown,
        named[:80] if isinstance(named, str) else None,
    )


def registered(parameters: dict[str, Any]) -> Registered:
    """The answer to `Register`. Raises ValueError if it is none."""
    return Registered(
        natural(parameters, "id"),
        _text(parameters, "page"),
        _text(parameters, "pressure"),
        natural(parameters, "weight"),
        _whole(parameters, "priority"),
    )


def changed(parameters: dict[str, Any], now: int) -> Changed:
    """An answer to `Subscribe` that came at `now` (monotonic ns). Raises ValueError if it is none."""
    numbers = parameters.get("numbers")
    if not isinstance(numbers, dict):
        raise ValueError("`numbers` is no JSON object")
    reading = Reading(
        limit=natural(numbers, "limit"),
        available=natural(numbers, "available"),
        owed=natural(numbers, "owed"),
        deadline=natural(numbers, "deadline"),
        uses=natural(numbers, "uses"),
        share=natural(numbers, "share"),
        # A level of a newer broker counts as critical.
        level=LEVELS.get(_text(numbers, "level"), Level.CRITICAL),
        sensed=natural(numbers, "sensed") if numbers.get("sensed") is not None else 0,
        generation=natural(parameters, "generation"),
        heartbeat=now,
        source=Source.BROKER,
    )
    return Changed(natural(parameters, "id"), reading)


def _whole(parameters: Mapping[str, object], name: str) -> int:
    value = parameters.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"`{name}` is no whole number")
    return value


def natural(parameters: Mapping[str, object], name: str) -> int:
    """A number of 64 bits that is not negative. Raises ValueError if it is none."""
    value = _whole(parameters, name)
    if not 0 <= value <= U64:
        raise ValueError(f"`{name}` is {value}: give 0 to {U64}")
    return value


def _text(parameters: Mapping[str, object], name: str) -> str:
    value = parameters.get(name)
    if not isinstance(value, str):
        raise ValueError(f"`{name}` is no text")
    return value


# Checks of what the program gives.


def check_name(name: str) -> str:
    """A name: 1 to 64 bytes of printable text. Raises ValueError if it is none."""
    length = len(name.encode())
    if not 1 <= length <= 64:
        raise ValueError(f"a name has 1 to 64 bytes, this one has {length}")
    for char in name:
        if unicodedata.category(char) == "Cc" or char in TURNING:
            raise ValueError(f"a name holds printable text only, this one has {char!a}; leave it out")
    return name


def check_adapter(adapter: str) -> str:
    """The name of an adapter. Raises ValueError if it is none."""
    is_plain = all(char in "abcdefghijklmnopqrstuvwxyz0123456789-" for char in adapter)
    if not is_plain or not 1 <= len(adapter) <= 32:
        raise ValueError(
            "the name of an adapter has 1 to 32 bytes of a to z, 0 to 9 and -: give `self`, or None for a "
            "passive program"
        )
    return adapter


def check_range(name: str, value: int, least: int, most: int) -> int:
    """A number in range. Raises ValueError if it is out of range, TypeError if it is no number."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} has to be a whole number, not {type(value).__name__}")
    if not least <= value <= most:
        raise ValueError(f"{name} {value} is out of range: give {least} to {most}")
    return value


def check_weight(weight: int) -> int:
    """A weight: 1 to 10000. Raises ValueError if it is none."""
    return check_range("weight", weight, 1, 10_000)


def check_priority(priority: int) -> int:
    """A priority: -100 to 100. Raises ValueError if it is none."""
    return check_range("priority", priority, -100, 100)


def check_maximum(size: int) -> int:
    """A maximum in bytes: 1 MiB to 2^62, or 0 for none. Raises ValueError if it is none."""
    return check_range("maximum", size, 1 << 20, 1 << 62) if size != 0 else 0


def check_pid(pid: int) -> int:
    """A process number. Raises ValueError if it is none."""
    return check_range("pid", pid, 1, (1 << 31) - 1)


def standing(weight: int | None, priority: int | None, maximum: int | None) -> dict[str, int]:
    """Those of the three that are given, as they are sent. Raises ValueError if one is out of range."""
    given = {}
    if weight is not None:
        given["weight"] = check_weight(weight)
    if priority is not None:
        given["priority"] = check_priority(priority)
    if maximum is not None:
        given["max"] = check_maximum(maximum)
    return given


def own_standing(weight: int | None, priority: int | None) -> dict[str, int]:
    """The same for a principal's own memory against that of its children."""
    return {f"own_{name}": value for name, value in standing(weight, priority, None).items()}
