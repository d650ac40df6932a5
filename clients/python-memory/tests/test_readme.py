"""The programs of the README run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import SOON
from fake import Fake

README = Path(__file__).parents[1] / "README.md"
PROGRAMS = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


def test_the_quick_start_has_ten_lines() -> None:
    assert len(PROGRAMS[0].splitlines()) == 10


@pytest.mark.parametrize("program", PROGRAMS)
def test_runs_as_it_stands(program: str, fake: Fake) -> None:
    if "cachetools" in program:
        pytest.importorskip("cachetools", reason="install plimsoll-memory[cachetools]")
    environment = {**os.environ, "PLIMSOLL_SOCKET": fake.socket}
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SOON, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(fake.registered) > 0
