"""Keeps memory in the client's hands: keep.py MIB. Fills so many blocks, says so, and gives back what is
owed."""

import sys
import time

from plimsoll_memory import EventKind, Principal

MIB = 1 << 20
READS = 20_000

with Principal("keep", adapter="self") as principal:
    begun = time.monotonic_ns()
    for _ in range(READS):
        principal.read()
    print('{"read_ns": %.1f}' % ((time.monotonic_ns() - begun) / READS), flush=True)
    blocks = [bytearray(b"\1" * MIB) for _ in range(int(sys.argv[1]))]
    print('{"ready": %d}' % (len(blocks) * MIB), flush=True)
    while True:
        event = principal.wait(timeout=60)
        if event.kind is EventKind.OWED:
            count = min(-(-event.reading.owed // MIB), len(blocks))
            del blocks[:count]
            principal.released(count * MIB)
