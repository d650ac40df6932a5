"""The places of a broker's socket, and whether to trust it."""

from __future__ import annotations

import ctypes
import os
import socket
import stat
import struct
from collections.abc import Mapping
from typing import NamedTuple

from plimsoll_memory._errors import AbsentError, UntrustedError

SYSTEM = "/run/plimsoll/broker.sock"
"""The system broker's socket."""
IN_DIRECTORY = "plimsoll/broker.sock"
AT_SECURE = 23


def environment() -> Mapping[str, str]:
    """The environment, if it can be trusted; else an empty one.

    A program with more rights than the user who started it (set-user-ID, file capabilities) got its variables
    from somebody with fewer rights (`AT_SECURE`, getauxval(3)).
    """
    try:
        getauxval = ctypes.CDLL(None).getauxval
    except (OSError, AttributeError):
        is_trusted = os.getresuid()[0] == os.geteuid() and os.getresgid()[0] == os.getegid()
    else:
        getauxval.argtypes, getauxval.restype = [ctypes.c_ulong], ctypes.c_ulong
        is_trusted = getauxval(AT_SECURE) == 0
    return os.environ if is_trusted else {}


class Place(NamedTuple):
    """A place where a broker may listen."""

    path: str
    """Path of the socket."""
    owner: int | None = None
    """The user who has to own the directory and run the broker; None for any user, where the protection of
    the directory is enough."""

    def page_of(self, principal: int) -> str:
        """The path of a principal's page, for a broker that does not tell it."""
        return os.path.join(os.path.dirname(self.path), "pages", str(principal))

    def check_directory(self) -> None:
        """Checks the socket's directory.

        Where everybody may write, anybody could create it first. So it has to be the owner's, no link, and
        closed to others (unless others cannot reach it).

        Raises:
            AbsentError: It is not there.
            UntrustedError: Others could have put the socket there.
        """
        if self.owner is None:
            return
        directory = os.path.dirname(self.path)
        try:
            found = os.lstat(directory)
        except OSError as error:
            raise AbsentError(f"cannot look at {directory}: {error.strerror}") from error
        why = None
        if not stat.S_ISDIR(found.st_mode):
            why = "it is not a directory"
        elif found.st_uid != self.owner:
            why = f"it belongs to user {found.st_uid}"
        elif found.st_mode & (0o077 if _is_open(os.path.dirname(directory)) else 0o022):
            why = "others than its owner may use it"
        if why is not None:
            raise UntrustedError(f"{directory} is not to be trusted: {why}; remove it or set PLIMSOLL_SOCKET")

    def check_peer(self, connection: socket.socket) -> None:
        """Checks that the process that answers belongs to the owner or root.

        Raises:
            UntrustedError: It does not.
        """
        if self.owner is None:
            return
        credentials = struct.Struct("iII")
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, credentials.size)
        _, uid, _ = credentials.unpack(raw)
        if uid not in (self.owner, 0):
            raise UntrustedError(
                f"{self.path} is not to be trusted: user {uid} listens there; "
                "remove it or set PLIMSOLL_SOCKET"
            )


def _is_open(directory: str) -> bool:
    """Whether others can pass through a directory."""
    try:
        return bool(os.stat(directory).st_mode & stat.S_IXOTH)
    except OSError:
        return True


def candidates(variables: Mapping[str, str], uid: int) -> list[Place]:
    """The places, in the order to try them.

    Only `PLIMSOLL_SOCKET` if it is set; else the user's broker, then the system's. `~/.cache/plimsoll` is
    where the user's broker is if another user took its place in `/tmp` before.
    """
    if variables.get("PLIMSOLL_SOCKET"):
        return [Place(variables["PLIMSOLL_SOCKET"])]
    directories = [f"/run/user/{uid}"]
    runtime = variables.get("XDG_RUNTIME_DIR", "")
    if _is_own_directory(runtime, uid) and runtime not in directories:
        directories.insert(0, runtime)
    paths = [os.path.join(directory, IN_DIRECTORY) for directory in directories]
    paths.append(f"/tmp/plimsoll-{uid}/broker.sock")
    home = variables.get("HOME", "")
    if _is_own_directory(home, uid):
        paths.append(os.path.join(home, ".cache", IN_DIRECTORY))
    return [Place(path, uid) for path in paths] + [Place(SYSTEM)]


def _is_own_directory(directory: str, uid: int) -> bool:
    """Whether it is this user's: `su` and `sudo -E` leave the previous user's in the environment."""
    try:
        return os.path.isabs(directory) and os.stat(directory).st_uid == uid
    except (OSError, ValueError):
        return False
