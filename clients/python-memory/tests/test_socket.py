"""Where a broker is looked for, and which sockets are not trusted."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import SOON

from plimsoll_memory import AbsentError, Principal, Source, UntrustedError
from plimsoll_memory._connection import Connection, first
from plimsoll_memory._socket import Place, candidates, environment

# A user number that nobody on this machine and no other run of this test has.
USER = 3_000_000_000 + os.getpid() % 100_000_000
DIRECTORY = f"/tmp/plimsoll-{USER}"
PLACE = Place(f"{DIRECTORY}/broker.sock", USER)


def test_places_are_looked_at_in_order(tmp_path: Path) -> None:
    uid = os.getuid()
    own = str(tmp_path)
    rest = [f"/tmp/plimsoll-{uid}/broker.sock"]
    by_user, system = f"/run/user/{uid}/plimsoll/broker.sock", "/run/plimsoll/broker.sock"

    def paths(**variables: str) -> list[str]:
        return [place.path for place in candidates(variables, uid)]

    assert paths() == [by_user, *rest, system]
    assert paths(XDG_RUNTIME_DIR=own) == [f"{own}/plimsoll/broker.sock", by_user, *rest, system]
    assert paths(HOME=own) == [by_user, *rest, f"{own}/.cache/plimsoll/broker.sock", system]
    for not_own in ("relative", "", f"{own}/absent", "/proc/1/\0"):
        assert paths(XDG_RUNTIME_DIR=not_own, HOME=not_own) == [by_user, *rest, system]
    assert paths(PLIMSOLL_SOCKET="/y.sock", HOME=own) == ["/y.sock"], "and nothing else"
    assert paths(PLIMSOLL_SOCKET="") == [by_user, *rest, system]
    assert [place.owner for place in candidates({}, uid)] == [uid, uid, None]
    assert Place("/a/b.sock").page_of(7) == "/a/pages/7"


@pytest.fixture
def taken() -> Iterator[str]:
    """The place of a user in `/tmp`, which is ours to make."""
    yield DIRECTORY
    if os.path.islink(DIRECTORY):
        os.unlink(DIRECTORY)
    else:
        shutil.rmtree(DIRECTORY, ignore_errors=True)


def test_nothing_there_is_no_attack() -> None:
    with pytest.raises(AbsentError):
        Connection(PLACE, 1)


def test_a_directory_of_another_user_is_not_trusted(taken: str) -> None:
    os.mkdir(taken)
    with pytest.raises(UntrustedError, match="belongs to user"):
        Connection(PLACE, 1)


def test_a_link_is_not_trusted(taken: str) -> None:
    os.symlink("/tmp", taken)
    with pytest.raises(UntrustedError, match="not a directory"):
        Connection(PLACE, 1)
    # At the next place a broker may answer.
    with pytest.raises(UntrustedError):
        first([PLACE, Place("/nowhere/b")], 1)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a directory away")
def test_a_directory_that_others_may_use_is_not_trusted(taken: str) -> None:
    os.mkdir(taken, 0o755)
    os.chown(taken, USER, -1)
    with pytest.raises(UntrustedError, match="others than its owner"):
        Connection(PLACE, 1)
    os.chmod(taken, 0o700)
    with pytest.raises(AbsentError):
        Connection(PLACE, 1)


def test_a_listener_of_another_user_is_not_trusted(directory: str) -> None:
    path = f"{directory}/s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(1)
        Connection(Place(path, os.getuid()), 1).close()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            if os.getuid() != 0:
                with pytest.raises(UntrustedError, match="listens there"):
                    Place(path, USER).check_peer(connection)
            Place(path, None).check_peer(connection)


def test_a_program_whose_place_another_user_took_is_alone_and_says_why(
    taken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.symlink("/tmp", taken)
    monkeypatch.setattr("plimsoll_memory._principal.candidates", lambda *_: [PLACE])
    with Principal("p") as principal:
        assert principal.read().source is Source.LOCAL
        assert "not a directory" in str(principal.last_error)


def test_a_socket_that_cannot_be_connected_to_is_named(directory: str) -> None:
    path = f"{directory}/s"
    with pytest.raises(AbsentError, match=path):
        Connection(Place(path), 1)
    with open(path, "w"):
        pass
    for bad in (path, "/tmp/" + "x" * 200, "/tmp/\0", "/tmp/\udc80"):
        with pytest.raises(AbsentError):
            Connection(Place(bad), 1)
    with pytest.raises(AbsentError, match="/nowhere/a, /nowhere/b"):
        first([Place("/nowhere/a"), Place("/nowhere/b")], 1)


def test_a_full_queue_is_waited_for_and_not_for_ever(directory: str) -> None:
    path = f"{directory}/s"
    held = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(1)
        with pytest.raises(AbsentError):  # noqa: PT012
            for _ in range(10_000):
                held.append(Connection(Place(path), 0.03))
        with pytest.raises(AbsentError, match="did not answer"):
            held[0].call("x", {})
        with pytest.raises(AbsentError, match="closed"):
            held[0].call("x", {})
    for connection in held:
        connection.close()


def test_the_environment_of_a_test_is_trusted() -> None:
    assert environment() is os.environ


@pytest.mark.skipif(os.geteuid() != 0, reason="another user needs root")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv")
def test_who_has_more_rights_than_who_started_it_believes_no_variable() -> None:
    code = "from plimsoll_memory._socket import environment; print(environment().get('PLIMSOLL_SOCKET'))"
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]
    folder = Path("/var/tmp") / f"plimsoll-test-{os.getpid()}"
    folder.mkdir(mode=0o755)
    try:
        package = folder / "plimsoll_memory"
        shutil.copytree(Path(sys.modules["plimsoll_memory"].__file__ or "").parent, package)
        python = folder / "python"
        shutil.copy(os.path.realpath(sys.executable), python)
        python.chmod(0o755)
        variables = {
            "PLIMSOLL_SOCKET": "/named",
            "PYTHONPATH": str(folder),
            "PYTHONHOME": sysconfig.get_config_var("prefix"),
            "LD_LIBRARY_PATH": sysconfig.get_config_var("LIBDIR") or "",
        }

        def believed() -> str:
            done = subprocess.run(
                [*command, str(python), "-c", code],
                env=variables,
                capture_output=True,
                text=True,
                timeout=SOON,
            )
            return done.stdout.strip() or done.stderr

        if believed() != "/named":
            pytest.skip("a copy of this Python does not run as another user")
        # cap_net_bind_service=ep, as the kernel keeps it (linux/capability.h).
        capable = bytes([1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
        try:
            os.setxattr(python, "security.capability", capable)
        except OSError:
            pytest.skip("files have no capabilities here")
        if os.statvfs(python).f_flag & os.ST_NOSUID:
            pytest.skip("files have no capabilities here")
        assert believed() == "None"
    finally:
        shutil.rmtree(folder)
