"""The memory cgroups of a process, of version 1 or 2."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from plimsoll_memory._kernel import KernelFile, pairs, read_file

NO_LIMIT = 1 << 62
"""Version 1 shows "no limit" as a number near 2^63. From this many bytes on, a limit is none."""
MOST_LEVELS = 64
"""Deepest tree of groups that is walked."""


class Mount(NamedTuple):
    """A mounted hierarchy that may have the memory controller."""

    id: int
    version: int
    root: str
    """Which group of the hierarchy is at the mount point."""
    point: str

    def below(self, name: str) -> str | None:
        """The directory of the group of this name; None if it is not below the mount."""
        root = self.root.rstrip("/")
        if ".." in name.split("/") or not (name == root or name.startswith(root + "/")):
            return None
        return (self.point + name[len(root) :]).rstrip("/")


def membership(text: bytes) -> dict[int, str]:
    """The names of a process's groups by version, of `/proc/PID/cgroup`."""
    found = {}
    for line in text.split(b"\n"):
        fields = line.split(b":", 2)
        if len(fields) < 3 or not fields[2].startswith(b"/"):
            continue
        number, controllers, name = fields
        name = name[: -len(b" (deleted)")] if name.endswith(b" (deleted)") else name
        if number == b"0" and not controllers:
            found[2] = os.fsdecode(name)
        elif b"memory" in controllers.split(b","):
            found[1] = os.fsdecode(name)
    return found


def mounts(text: bytes) -> list[Mount]:
    """The hierarchies of `/proc/self/mountinfo` that may have the memory controller."""
    found = []
    for line in text.split(b"\n"):
        before, _, after = line.partition(b" - ")
        fields, (kind, _, options) = before.split(), (after.split() + [b""] * 3)[:3]
        if len(fields) < 5 or not fields[0].isdigit():
            continue
        if kind == b"cgroup2":
            version = 2
        elif kind == b"cgroup" and b"memory" in options.split(b","):
            version = 1
        else:
            continue
        found.append(Mount(int(fields[0]), version, _unescape(fields[3]), _unescape(fields[4])))
    return found


def _unescape(text: bytes) -> str:
    return os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda octal: bytes([int(octal[1], 8) & 255]), text))


def choose(
    names: dict[int, str], places: Iterable[Mount], has_memory: Callable[[Mount], bool]
) -> tuple[int, str, str] | None:
    """The first place that shows the group of a process: version, directory, and the top that is visible."""
    for mount in places:
        if mount.version not in names or (mount.version == 2 and not has_memory(mount)):
            continue
        directory = mount.below(names[mount.version])
        if directory is not None:
            return mount.version, directory, mount.point
    return None


def _has_memory(mount: Mount) -> bool:
    try:
        return b"memory" in read_file(os.path.join(mount.point, "cgroup.controllers")).split()
    except OSError:
        return False


def _is_visible(mount: Mount) -> bool:
    """Whether the mount is what is found at its point: another may lie over it."""
    try:
        point = os.open(mount.point, os.O_PATH | os.O_CLOEXEC | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        found = pairs(read_file(f"/proc/self/fdinfo/{point}")).get(b"mnt_id")
    except OSError:
        found = None
    finally:
        os.close(point)
    return found is None or found == mount.id


class Group:
    """A memory cgroup whose files are open."""

    def __init__(self, version: int, directory: str) -> None:
        """Opens its files. Raises OSError when it is gone."""
        limit, usage = (
            ("memory.limit_in_bytes", "memory.usage_in_bytes")
            if version == 1
            else ("memory.max", "memory.current")
        )
        self._version = version
        # The top group of version 2 has neither limit nor usage.
        self._limit = _open(directory, limit)
        self._usage = _open(directory, usage)
        self._stat = _open(directory, "memory.stat")
        self.is_hierarchical = version == 2 or _counts_children(directory)

    def limit(self) -> int | None:
        """Its own limit, bytes; None if it has none. Raises OSError when it is gone."""
        found = self._limit.number() if self._limit else None
        return None if found is None or found >= NO_LIMIT else found

    def usage(self) -> int:
        """Memory that is charged to it and its descendants, bytes. Raises OSError when it is gone."""
        found = self._usage.number() if self._usage else None
        if found is None:
            raise OSError("a cgroup does not say how much it uses")
        return found

    def droppable(self) -> int:
        """The part of it that the kernel can free without writing and that nobody uses, bytes.

        Clean inactive file pages, and those pages of the swap cache that no process has mapped.
        """
        if self._stat is None:
            return 0
        return droppable(self._stat.read(), self._version, self.is_hierarchical)


def droppable(text: bytes, version: int, is_hierarchical: bool) -> int:
    """As `Group.droppable`, of the text of `memory.stat`."""
    # In version 1 the lines that begin with `total_` count the descendants.
    prefix = b"total_" if version == 1 and is_hierarchical else b""
    anon, dirty = (b"rss", b"dirty") if version == 1 else (b"anon", b"file_dirty")
    found = pairs(text)

    def part(name: bytes) -> int:
        return found.get(prefix + name, 0)

    files = max(part(b"inactive_file") - part(dirty), 0)
    listed = part(b"inactive_anon") + part(b"active_anon")
    unmapped = max(listed - part(b"shmem") - part(anon), 0)
    return files + min(part(b"swapcached"), unmapped)


def _open(directory: str, name: str) -> KernelFile | None:
    try:
        return KernelFile(os.path.join(directory, name))
    except FileNotFoundError:
        if os.path.isdir(directory):
            return None
        raise


def _counts_children(directory: str) -> bool:
    """Whether a group of version 1 counts its children's memory; kernels from 5.11 always do."""
    try:
        return read_file(os.path.join(directory, "memory.use_hierarchy")).strip() != b"0"
    except OSError:
        return True


def groups_of(pid: int) -> list[Group]:
    """The groups whose limits bind a process, innermost first; none where they are not visible here.

    Raises:
        OSError: There is no such process, or a group disappeared meanwhile.
    """
    try:
        names = membership(read_file(f"/proc/{pid}/cgroup"))
    except FileNotFoundError:
        if os.path.isdir(f"/proc/{pid}"):
            return []  # A kernel without cgroups.
        raise
    places = [mount for mount in mounts(read_file("/proc/self/mountinfo")) if _is_visible(mount)]
    found = choose(names, places, _has_memory)
    if found is None:
        return []
    version, directory, top = found
    groups: list[Group] = []
    while len(groups) < MOST_LEVELS:
        group = Group(version, directory)
        if groups and not group.is_hierarchical:
            break
        groups.append(group)
        if directory == top:
            break
        directory = os.path.dirname(directory)
    return groups
