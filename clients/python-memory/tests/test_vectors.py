"""The vectors that clients in every language run."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any

import pytest
from conftest import eventually

from plimsoll_memory import Ghost, RefusedError, _page, _wire
from plimsoll_memory.govern import Governor, Granted, Own

VECTORS = Path(os.environ.get("PLIMSOLL_VECTORS", Path(__file__).parents[2] / "vectors"))
pytestmark = pytest.mark.skipif(not VECTORS.is_dir(), reason=f"no vectors at {VECTORS}: set PLIMSOLL_VECTORS")


def cases(name: str) -> list[Any]:
    path = VECTORS / f"{name}.json"
    if not path.exists():
        return []
    found = json.loads(path.read_text())["cases"]
    return [pytest.param(case, id=case["name"]) for case in found]


def numbers_of(reading: Any) -> dict[str, Any]:
    names = ("limit", "available", "owed", "deadline", "uses", "share", "sensed")
    return {**{name: getattr(reading, name) for name in names}, "level": reading.level.name.lower()}


@pytest.mark.parametrize("case", cases("pages"))
def test_pages_read_as_the_vectors_say(case: dict[str, Any], tmp_path: Path) -> None:
    data = bytes.fromhex(case["bytes"]).ljust(4096, b"\0")
    try:
        content = _page.parse(data)
    except ValueError:
        found: object = "not a page"
    else:
        reading = content.reading
        found = (
            "no numbers"
            if reading is None
            else {
                "id": content.id,
                "numbers": numbers_of(reading),
                "heartbeat": reading.heartbeat,
                "generation": reading.generation,
                "stale": _page.is_stale(reading.heartbeat, case["now"]),
            }
        )
    assert found == case["expect"]
    if isinstance(found, dict):
        # An open page reads the same.
        path = tmp_path / "page"
        path.write_bytes(data)
        page = _page.Page(str(path), found["id"])
        assert page.read() == content.reading
        assert (page.limit(), page.heartbeat()) == (found["numbers"]["limit"], found["heartbeat"])


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(field) for name, field in value.items() if field is not None}
    return value


@pytest.mark.parametrize("case", cases("calls"))
def test_calls_are_written_as_the_vectors_say(case: dict[str, Any]) -> None:
    given = json.loads(case["message"])
    written = _wire.encode_call(
        given["method"],
        given["parameters"],
        more=given.get("more", False),
        oneway=given.get("oneway", False),
    )
    assert written.endswith(b"\0")
    assert without_nulls(json.loads(written[:-1])) == without_nulls(given)


def test_a_principal_sends_what_the_vectors_say(brokers: Any, opened: Any) -> None:
    expected = {case.id: json.loads(case.values[0]["message"]) for case in cases("calls")}

    def call(name: str) -> tuple[str, dict[str, Any]]:
        return expected[name]["method"].rsplit(".", 1)[1], expected[name]["parameters"]

    fake = brokers(first=7)
    known = dict(call("what a collector knows")[1])
    principal = opened("my-cache", weight=50, pid=4711)
    principal.attach(4712)
    del known["id"]
    principal.report(**known)
    principal.released(10485760)
    principal.set(weight=200)
    for name in (
        "a program registers",
        "a process that started later",
        "what a collector knows",
        "changes are told from now on",
        "bytes were given back",
        "another weight",
    ):
        eventually(name, functools.partial(lambda wanted: wanted in fake.calls, call(name)))
    principal.close()
    fake = brokers(first=7)
    cache = opened("my-cache")
    cached = dict(call("what a cache is worth")[1])
    del cached["id"]
    cache.report(**cached)
    eventually("what a cache is worth", lambda: call("what a cache is worth") in fake.calls)
    cache.close()
    fake = brokers(first=3)
    parent = opened("parent")
    with parent.child("batch", group=True, priority=-10, maximum=1 << 30):
        assert call("a group below another principal") in fake.calls


@pytest.mark.parametrize("case", cases("replies"))
def test_replies_are_read_as_the_vectors_say(case: dict[str, Any]) -> None:
    try:
        reply = _wire.parse_reply(case["message"].encode())
    except RefusedError as error:
        found: Any = {"error": error.name, "message": str(error)}
    else:
        parameters: dict[str, Any] = {}
        if case["to"] == "Register":
            parameters = _wire.registered(reply.parameters)._asdict()
        elif case["to"] == "Subscribe":
            changed = _wire.changed(reply.parameters, 0)
            generation = changed.reading.generation
            numbers = numbers_of(changed.reading)
            parameters = {"id": changed.id, "generation": generation, "numbers": numbers}
        found = {"continues": reply.continues, "parameters": parameters}
    assert found == case["expect"]


@pytest.mark.parametrize("case", cases("governor"))
def test_the_governor_steps_as_the_vectors_say(case: dict[str, Any]) -> None:
    governor = Governor(case["started"], case["allocated"])
    for step in case["steps"]:
        rate = governor.measure(step["now"], step["allocated"])
        govern = governor.step(step["now"], Granted(**step["granted"]), Own(**step["own"]))
        found = {"rate": rate, **govern._asdict()}
        found["report"] = None if govern.report is None else govern.report._asdict()
        assert found == step["expect"], step["now"]
        if step.get("released"):
            told = step["released"]
            governor.released(told["began"], told["ended"], told["resident"])


@pytest.mark.parametrize("case", cases("ghost"))
def test_the_ghost_list_steps_as_the_vectors_say(case: dict[str, Any]) -> None:
    ghost = Ghost(case["begun"])
    for step in case["steps"]:
        for name, given in step.items():
            if name == "worth":
                now, expect = given
                assert ghost.worth(now) == expect, step
            else:
                getattr(ghost, name)(*given)


def test_there_are_vectors() -> None:
    for name in ("pages", "calls", "replies", "governor", "ghost"):
        assert cases(name), name
