"""Reads each file of a folder as a trace. Prints its name, and how many events it has or that it is refused.
No content of a file raises another error than TraceError."""

import pathlib
import sys

from plimsoll.trace import NAMES, Trace, TraceError


def events(path):
    with Trace(path) as trace:
        trace.names()
        blocks = (block for thread in trace.threads for block in trace.blocks(thread))
        return sum(int((block.kind < len(NAMES)).sum()) for block in blocks)


for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    try:
        print(path.name, events(path))
    except TraceError as error:
        assert str(path) in str(error), error
        print(path.name, "refused")
