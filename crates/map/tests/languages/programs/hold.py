# Holds MiB of small objects, lets go of a part, and says what the allocator counts.
import os
import re
import sys
import tempfile

mib = int(sys.argv[1])
held = []
for _ in range(mib * 1048576 // 140):
    held.append((1.5 * _, str(_)))
for _ in range(len(held) // 8):
    held.pop()
with tempfile.TemporaryFile() as file:
    before = os.dup(2)
    os.dup2(file.fileno(), 2)
    sys._debugmallocstats()
    os.dup2(before, 2)
    file.seek(0)
    text = file.read().decode().replace(",", "")
arenas = int(re.search(r"arenas \* \d+ bytes/arena *= *(\d+)", text).group(1))
unused = int(re.search(r"unused pools \* \d+ bytes *= *(\d+)", text).group(1))
print("arenas=%d unused=%d" % (arenas, unused), flush=True)
sys.stdin.read()
