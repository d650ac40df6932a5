"""The availability page: a small file per principal, which only the broker writes.

The page is read by `os.pread` and not mapped: a mapping of a truncated file raises SIGBUS, which Python
cannot catch, and Python has no memory fence to read a mapping in order.
"""

from __future__ import annotations

import os
import stat
import struct
from typing import NamedTuple

from plimsoll_memory._errors import PageError
from plimsoll_memory._reading import Level, Reading, Source

SIZE = 4096
"""Length of the file, bytes."""
STALE_AFTER = 3_000_000_000
"""If the heartbeat of a page is older than this (ns), its broker is gone."""

MAGIC = b"PLIMSOLL"
VERSION = 1
HEADER = struct.pack("<8sII", MAGIC, VERSION, SIZE)
WORDS = struct.Struct("<16x12Q")
"""Sequence, limit, available, owed, deadline, uses, share, level, heartbeat, generation, id, sensed."""
END = WORDS.size
LIMIT_AT = 24
HEARTBEAT_AT = 80

TRIES = 50
"""How often a reader tries while the page is written, before it takes the last numbers that were told."""
LEVELS = (Level.NORMAL, Level.WARNING, Level.CRITICAL)


class Content(NamedTuple):
    """The content of a page."""

    id: int
    """The principal's number."""
    reading: Reading | None
    """The numbers; None when nothing was published yet, or the page is being written."""


def parse(data: bytes, source: Source = Source.BROKER) -> Content:
    """Parses a copy of a page's first bytes.

    Raises:
        ValueError: It is no page of this version.
    """
    if len(data) < END or data[:8] != MAGIC:
        raise ValueError("it does not begin with PLIMSOLL: it is no availability page, or it was truncated")
    version, size = struct.unpack_from("<II", data, 8)
    if version != VERSION:
        raise ValueError(
            f"its layout version is {version}, this program reads {VERSION}: update the older of the two"
        )
    if size != SIZE:
        raise ValueError(f"it says that it is {size} bytes long, expected {SIZE}")
    words = WORDS.unpack_from(data)
    is_whole = words[0] != 0 and words[0] % 2 == 0
    return Content(words[10], _reading(words, source) if is_whole else None)


def is_stale(heartbeat: int, now: int) -> bool:
    """Whether a broker with this last sign of life is gone. Both are monotonic ns."""
    return now - heartbeat > STALE_AFTER


def _reading(words: tuple[int, ...], source: Source) -> Reading:
    _, limit, available, owed, deadline, uses, share, level, heartbeat, generation, _, sensed = words
    # A level of a newer broker counts as critical.
    urgency = LEVELS[level] if level < len(LEVELS) else Level.CRITICAL
    return Reading(
        limit, available, owed, deadline, uses, share, urgency, sensed, generation, heartbeat, source
    )


class Page:
    """The page of a principal. Its descriptor is closed when the last one who reads lets go of it."""

    def __init__(self, path: str, principal: int) -> None:
        """Opens the page of the principal with this number.

        Raises:
            PageError: It cannot be opened, is no page of this version, or belongs to another principal.
        """
        self._fd = -1
        try:
            # A broker that lies may name a queue or a device, which would block.
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            if not stat.S_ISREG(os.fstat(self._fd).st_mode):
                raise ValueError("it is no file")
            data = os.pread(self._fd, SIZE, 0)
            if len(data) < SIZE:
                raise ValueError(f"it has {len(data)} bytes, expected {SIZE}")
            found = parse(data).id
        except OSError as error:
            raise PageError(f"cannot open the availability page {path}: {error.strerror}") from error
        except ValueError as error:
            raise PageError(f"{path!r} is not usable as an availability page: {error}") from error
        if found != principal:
            raise PageError(
                f"cannot use the availability page {path}: "
                f"it belongs to principal {found}, not to {principal}"
            )

    def __del__(self) -> None:
        """Closes the descriptor."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def read(self, source: Source = Source.BROKER) -> Reading | None:
        """The numbers of one moment; None when there are none, or the page is gone.

        Two equal copies prove that the page was not written while it was copied: each write changes the
        sequence before and after the numbers.
        """
        fd = self._fd
        for _ in range(TRIES):
            try:
                data = os.pread(fd, END, 0)
                again = os.pread(fd, END, 0)
            except OSError:
                return None
            if len(data) < END or data[:16] != HEADER:
                return None
            if data == again:
                words = WORDS.unpack(data)
                if words[0] == 0:
                    return None
                if words[0] % 2 == 0:
                    return _reading(words, source)
        return None

    def limit(self) -> int:
        """The limit alone, bytes; 0 when there is none, or the page is gone."""
        return self._word(LIMIT_AT)

    def heartbeat(self) -> int:
        """The broker's last sign of life, monotonic ns; 0 when the page is gone."""
        return self._word(HEARTBEAT_AT)

    def is_usable(self) -> bool:
        """Whether it still is a page of this version, and not truncated."""
        try:
            data = os.pread(self._fd, END, 0)
        except OSError:
            return False
        return len(data) == END and data[:16] == HEADER

    def _word(self, offset: int) -> int:
        try:
            return int.from_bytes(os.pread(self._fd, 8, offset), "little")
        except OSError:
            return 0
