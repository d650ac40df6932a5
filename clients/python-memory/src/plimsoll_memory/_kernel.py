"""Files of `/proc` and of cgroups, and their parsers."""

from __future__ import annotations

import os

MOST = 64 * 1024
"""Longest text that is read from an open file, bytes."""
MOST_LISTED = 4 * 1024 * 1024
"""Longest list of mounts that is read, bytes."""


class KernelFile:
    """A file of the kernel that stays open, so that it can be read when no descriptor is left."""

    def __init__(self, path: str) -> None:
        """Opens it. Raises OSError."""
        self._fd = -1
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        """Closes it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def read(self) -> bytes:
        """Its present text. Raises OSError, for example when the process or the group is gone."""
        return os.pread(self._fd, MOST, 0)

    def number(self) -> int | None:
        """Its number; None for `max`."""
        return number(self.read().strip())


def read_file(path: str) -> bytes:
    """The text of a file. Raises OSError."""
    with open(path, "rb") as file:
        return file.read(MOST_LISTED)


def number(text: bytes) -> int | None:
    """A decimal number that fills the text."""
    return int(text) if text.isdigit() and len(text) <= 20 else None


def pairs(text: bytes) -> dict[bytes, int]:
    """The numbers by name of `name value` (memory.stat) and `name: value kB` (meminfo, status), in bytes."""
    found = {}
    for line in text.split(b"\n"):
        words = line.split()
        if len(words) < 2:
            continue
        value = number(words[1])
        if value is not None:
            unit = 1024 if words[2:3] == [b"kB"] else 1
            found[words[0].rstrip(b":")] = value * unit
    return found


def machine(text: bytes) -> tuple[int, int]:
    """The machine's memory by `/proc/meminfo`: all, and the part in use that cannot be dropped for free.

    Free are unused pages, clean inactive file pages, the swap cache, and half of the reclaimable slabs. In
    use is never less than the kernel's own estimate says. Raises ValueError if the text has no total.
    """
    info = pairs(text)
    total = info.get(b"MemTotal", 0)
    if total == 0:
        raise ValueError("/proc/meminfo has no line `MemTotal`")
    files = max(info.get(b"Inactive(file)", 0) - info.get(b"Dirty", 0), 0)
    droppable = files + info.get(b"SwapCached", 0) + info.get(b"SReclaimable", 0) // 2
    used = max(total - info.get(b"MemFree", 0) - droppable, 0)
    available = info.get(b"MemAvailable", 0)
    return total, used if available == 0 else max(used, total - available)


def own_use(status: bytes) -> int:
    """The anonymous and shared memory of a process by `/proc/PID/status`, bytes."""
    info = pairs(status)
    return info.get(b"RssAnon", 0) + info.get(b"RssShmem", 0)


def parent_of(pid: int) -> int | None:
    """The number of a process's parent; None if the process is gone."""
    try:
        text = read_file(f"/proc/{pid}/stat")
    except OSError:
        return None
    # The name, in brackets, may hold anything.
    fields = text[text.rfind(b")") + 1 :].split()
    return number(fields[1]) if len(fields) > 1 else None
