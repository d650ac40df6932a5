"""The page, read while a broker writes it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import SOON, eventually

from plimsoll_memory import PageError, Source
from plimsoll_memory._page import Page, is_stale

WRITER = """
import sys
from fake import Page, Script, numbers
page = Page(sys.argv[1], 7, Script.GOOD)
limit = 1
print("begins", flush=True)
while True:
    limit = limit * 5 % 1000003
    page.publish(numbers(limit, owed=limit, deadline=limit, uses=limit, share=limit, sensed=limit))
"""


def test_no_reading_is_torn_while_another_process_writes(tmp_path: Path) -> None:
    path = str(tmp_path / "page")
    command = [sys.executable, "-c", WRITER, path]
    with subprocess.Popen(command, cwd=Path(__file__).parent, stdout=subprocess.PIPE) as writer:
        try:
            assert writer.stdout is not None
            writer.stdout.readline()
            page = Page(path, 7)
            eventually("something is published", page.read)
            seen: set[int] = set()
            end = time.monotonic() + 2
            while time.monotonic() < end or (len(seen) < 10 and time.monotonic() < end + SOON):
                now = page.read()
                if now is not None:
                    assert now.available == 2 * now.limit
                    assert now.owed == now.deadline == now.uses == now.share == now.sensed == now.limit
                    seen.add(now.generation)
            assert len(seen) >= 10
        finally:
            writer.kill()


def test_a_clock_that_was_set_back_ends_no_broker() -> None:
    assert not is_stale(heartbeat=10_000_000_000, now=0)
    assert not is_stale(heartbeat=0, now=3_000_000_000)
    assert is_stale(heartbeat=0, now=3_000_000_001)


@pytest.mark.parametrize("path", ["/nowhere/page", "/tmp", "/dev/zero", "/dev/null", "/proc/self/stat", "\0"])
def test_other_files_are_no_pages(path: str) -> None:
    with pytest.raises(PageError, match="page"):
        Page(path, 1)


def test_a_page_that_is_gone_reads_as_nothing(tmp_path: Path) -> None:
    path = tmp_path / "page"
    path.write_bytes(b"PLIMSOLL" + bytes([1, 0, 0, 0, 0, 16, 0, 0, 2]).ljust(4088, b"\0"))
    page = Page(str(path), 0)
    assert page.is_usable()
    reading = page.read(Source.STALE)
    assert reading is not None
    assert reading.source is Source.STALE
    path.write_bytes(b"")
    assert page.read() is None
    assert (page.limit(), page.heartbeat(), page.is_usable()) == (0, 0, False)
