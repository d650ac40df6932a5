"""Prints the events of a trace, thread by thread, as `plimsoll trace convert --to csv` prints those of a
stream."""

import sys

from plimsoll.trace import NAMES, Trace

FIELDS = "time object size class_ site peer priority monitor timeout all order holder slot target".split()
# CSV leaves these out because they are usual. All else that is 0 is left out by the kind of the event.
HAS = {
    "compute": ["time"],
    "sleep": ["time"],
    "alloc": ["object", "size"],
    "death": ["object"],
    "start": ["peer"],
    "join": ["peer"],
    "unpark": ["peer"],
    "enter": ["monitor"],
    "exit": ["monitor"],
    "wait": ["monitor"],
    "notify": ["monitor"],
    "stamp": ["order"],
    "store": ["holder", "slot"],
    "store-static": ["class_", "slot"],
    "use": ["object"],
}

with Trace(sys.argv[1]) as trace:
    print("cut", trace.cut is not None, "raw", trace.header.raw, trace.header.unit, trace.header.deaths)
    for (what, number), name in sorted(trace.names().items()):
        print("name", what, number, name)
    for thread in trace.threads:
        expected = 0
        for block in trace.blocks(thread):
            columns = [getattr(block, field) for field in FIELDS]
            for index, kind in enumerate(block.kind):
                name = NAMES[kind]
                cells = []
                for field, column in zip(FIELDS, columns):
                    value = column[index]
                    usual = 5 if field == "priority" else 0
                    shown = field in HAS.get(name, ()) or value not in (0, usual)
                    cells.append(str(value) if shown else "")
                print(",".join([str(thread), name, *cells]))
                assert block.allocated[index] == expected, (thread, index)
                expected += int(block.size[index])
