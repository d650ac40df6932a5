"""A scripted broker that behaves well, badly, late, or not at all."""

from __future__ import annotations

import contextlib
import enum
import json
import os
import socket
import struct
import threading
import time
from typing import Any

MIB = 1 << 20
FIELDS = ("limit", "available", "owed", "deadline", "uses", "share", "level")
LEVELS = ("normal", "warning", "critical")


class Script(enum.Enum):
    """How it misbehaves."""

    GOOD = "behaves well"
    SILENT = "takes calls and never answers"
    LATE = "answers after `delay` seconds"
    DRIPS = "sends an answer a byte at a time, for ever"
    TRUNCATED = "sends half an answer and closes"
    GARBAGE = "sends what is no JSON"
    ENDLESS = "sends a message that never ends"
    NESTED = "sends JSON that is nested deeply"
    DIGITS = "sends a number of a million digits"
    LIES = "answers with values of the wrong kind"
    CLOSES = "closes each connection at once"
    REFUSES = "refuses to register"
    STRICT = "refuses a process that is a principal already, as brokers do"
    DIES_AFTER_REGISTER = "dies right after the answer to Register"
    NO_PAGE = "registers, but makes no page"
    SHORT_PAGE = "registers, but the page is shorter than a page"
    NEW_VERSION = "registers, but the page has another layout version"
    WRONG_ID = "registers, but the page is somebody else's"
    QUEUE_PAGE = "registers, but the page is a queue, which blocks who opens it"
    BAD_PATH = "registers, but the path of the page cannot be one"
    OLD = "refuses a report with the field `worth`, which it does not know"


def numbers(limit: int, **more: int) -> dict[str, int]:
    """Numbers around a limit."""
    fields = {
        "available": limit * 2,
        "owed": 0,
        "deadline": 0,
        "uses": limit // 2,
        "share": limit,
        "level": 0,
    }
    return {"limit": limit, **fields, **more}


class Page:
    """A page, written as brokers do: sequence odd, numbers, sequence even."""

    def __init__(self, path: str, number: int, script: Script) -> None:
        self.number = number
        self.asked: dict[str, Any] = {}
        self.sequence = self.generation = 0
        self.last = numbers(0)
        self.fd = -1
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        if script is Script.NO_PAGE:
            return
        if script is Script.QUEUE_PAGE:
            os.mkfifo(path)
            return
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
        os.ftruncate(self.fd, 100 if script is Script.SHORT_PAGE else 4096)
        version = 9 if script is Script.NEW_VERSION else 1
        os.pwrite(self.fd, struct.pack("<8sII", b"PLIMSOLL", version, 4096), 0)
        os.pwrite(self.fd, struct.pack("<Q", 77 if script is Script.WRONG_ID else number), 96)

    def publish(self, new: dict[str, int]) -> None:
        self.last = new
        self.generation += 1
        self.sequence += 2
        if self.fd < 0:
            return
        os.pwrite(self.fd, struct.pack("<Q", self.sequence - 1), 16)
        os.pwrite(self.fd, struct.pack("<7Q", *(new[field] for field in FIELDS)), 24)
        os.pwrite(self.fd, struct.pack("<2Q", time.monotonic_ns(), self.generation), 80)
        os.pwrite(self.fd, struct.pack("<Q", new.get("sensed", time.monotonic_ns())), 104)
        os.pwrite(self.fd, struct.pack("<Q", self.sequence), 16)

    def beat(self) -> None:
        if self.fd >= 0:
            os.pwrite(self.fd, struct.pack("<Q", time.monotonic_ns()), 80)

    def changed(self) -> dict[str, Any]:
        sensed = self.last.get("sensed", time.monotonic_ns())
        shown = {**self.last, "level": LEVELS[self.last["level"]], "sensed": sensed}
        return {"id": self.number, "generation": self.generation, "numbers": shown}

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Fake:
    """The broker. Its state may be looked at and changed while it runs."""

    def __init__(self, directory: str, script: Script = Script.GOOD, first: int = 1) -> None:
        self.directory = directory
        self.socket = os.path.join(directory, "broker.sock")
        self.script = script
        self.delay = 0.0
        self.first = numbers(100 * MIB)
        self.next = first
        self.is_frozen = False
        self.registered: list[dict[str, Any]] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.gone: list[int] = []
        self.pages: dict[int, Page] = {}
        self._lock = threading.RLock()
        self._dead = threading.Event()
        self._subscribers: list[tuple[int, socket.socket]] = []
        self._connections: list[socket.socket] = []
        os.makedirs(os.path.join(directory, "pages"), exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.socket)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.socket)
        self._listener.listen(64)
        self._listener.settimeout(0.05)
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._accept, self._beat)]
        for thread in self._threads:
            thread.start()

    def page(self, number: int) -> str:
        return os.path.join(self.directory, "pages", str(number))

    def told(self, method: str) -> list[dict[str, Any]]:
        """The parameters of all calls of a method."""
        with self._lock:
            return [parameters for name, parameters in self.calls if name == method]

    def publish(self, number: int, new: dict[str, int], silently: bool = False) -> None:
        """Writes the page and tells the subscribers."""
        with self._lock:
            page = self.pages[number]
            page.publish(new)
            for whose, connection in [] if silently else self._subscribers:
                if whose == number:
                    self._send(connection, {"parameters": page.changed(), "continues": True})

    def flood(self, number: int, data: bytes) -> None:
        """Sends bytes to the subscribers of a principal, until these have closed the connection."""
        for whose, connection in list(self._subscribers):
            if whose == number:
                with contextlib.suppress(OSError):
                    connection.sendall(data)

    def freeze(self) -> None:
        """Stops heartbeats and answers but keeps connections open, as a stopped process does."""
        self.is_frozen = True
        self.script = Script.SILENT

    def kill(self) -> None:
        """Dies as by SIGKILL: connections end, files stay."""
        self._dead.set()
        for thread in self._threads:
            thread.join()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        deadline = time.monotonic() + 60
        while self._connections and time.monotonic() < deadline:
            time.sleep(0.005)
        for page in self.pages.values():
            page.close()

    def _accept(self) -> None:
        while not self._dead.is_set():
            try:
                connection, _ = self._listener.accept()
            except (TimeoutError, socket.timeout):
                continue
            except OSError:
                time.sleep(0.01)
                continue
            connection.settimeout(None)
            with self._lock:
                self._connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _beat(self) -> None:
        while not self._dead.wait(0.1):
            with self._lock:
                if not self.is_frozen:
                    for page in self.pages.values():
                        page.beat()

    def _serve(self, connection: socket.socket) -> None:
        life: list[int] = []
        buffer = b""
        with contextlib.suppress(OSError):
            while self.script is not Script.CLOSES:
                data = connection.recv(65536)
                if not data:
                    break
                *messages, buffer = (buffer + data).split(b"\0")
                if not all(self._answer(connection, json.loads(message), life) for message in messages):
                    break
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        connection.close()
        with self._lock:
            self._connections.remove(connection)
            self._subscribers = [pair for pair in self._subscribers if pair[1] is not connection]
            for number in life:
                self.gone.append(number)
                self.pages.pop(number).close()

    def _answer(self, connection: socket.socket, call: dict[str, Any], life: list[int]) -> bool:
        """Answers a message. Returns False if the connection is to be closed."""
        script = self.script
        if script is Script.SILENT:
            return True
        if script is Script.LATE:
            time.sleep(self.delay)
        if script is Script.TRUNCATED:
            connection.sendall(b'{"parameters":{"id":1,"pa')
            return False
        if script is Script.ENDLESS:
            while True:
                connection.sendall(b" " * 65536)
        if script is Script.DRIPS:
            while not self._dead.wait(0.02):
                connection.sendall(b" ")
        nonsense = {
            Script.GARBAGE: b"\xff\xfe nonsense",
            Script.NESTED: b"[" * 50_000,
            Script.DIGITS: b'{"parameters":{"id":' + b"9" * 60_000 + b"}}",
            Script.LIES: b'{"parameters":{"id":true,"page":7,"pressure":null,"weight":-1,"priority":1e999}}',
        }.get(script)
        if nonsense is not None:
            connection.sendall(nonsense + b"\0")
            return True
        with self._lock:
            self._send(connection, self._dispatch(connection, call, life))
        return not (script is Script.DIES_AFTER_REGISTER and life)

    def _send(self, connection: socket.socket, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            connection.sendall(json.dumps(message).encode() + b"\0")

    def _dispatch(self, connection: socket.socket, call: dict[str, Any], life: list[int]) -> dict[str, Any]:
        method, parameters = call["method"].rsplit(".", 1)[1], call.get("parameters", {})
        self.calls.append((method, parameters))
        if method == "Register":
            return self._register(parameters, life)
        if method == "Subscribe":
            page = self.pages.get(parameters["id"])
            if page is None:
                return _refuse("NoSuchPrincipal", "no such principal")
            self._subscribers.append((page.number, connection))
            return {"parameters": page.changed(), "continues": True}
        if method == "Adapt" and parameters["id"] in self.pages:
            self.pages[parameters["id"]].asked["adapter"] = parameters["adapter"]
        if method == "Report" and "worth" in parameters and self.script is Script.OLD:
            return _unknown("worth")
        if method == "List":
            return {"parameters": {"principals": self._listing()}}
        return {"parameters": {}}

    def _listing(self) -> list[dict[str, Any]]:
        shown = []
        for number, page in self.pages.items():
            asked = page.asked
            shown.append(
                {"id": number, "kind": asked["kind"], "name": asked["name"], "pid": asked.get("pid")}
            )
            shown[-1]["adapter"] = asked.get("adapter")
        return shown

    def _register(self, asked: dict[str, Any], life: list[int]) -> dict[str, Any]:
        if self.script is Script.REFUSES:
            return _refuse("TooMany", "full; raise max_principals")
        pids = [present["pid"] for present in self._listing()]
        if self.script is Script.STRICT and asked.get("pid") in pids:
            return _refuse("AlreadyRegistered", "it is one")
        number, self.next = self.next, self.next + 1
        page = Page(self.page(number), number, self.script)
        page.asked = asked
        page.publish(self.first)
        self.pages[number] = page
        self.registered.append(asked)
        life.append(number)
        path = "/\0" if self.script is Script.BAD_PATH else self.page(number)
        grant = {"id": number, "page": path, "pressure": "", "weight": 100, "priority": 0}
        return {"parameters": grant}


def _refuse(name: str, message: str) -> dict[str, Any]:
    return {"error": "io.plimsoll." + name, "parameters": {"message": message}}


def _unknown(field: str) -> dict[str, Any]:
    message = f"{field}: unknown field `{field}`, expected `id` or `live`"
    return {
        "error": "org.varlink.service.InvalidParameter",
        "parameters": {"parameter": field, "message": message},
    }
