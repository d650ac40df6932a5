"""Makes the simulations of a sweep of `plimsoll sim` on a cluster, by Dask (docs/src/phases.md).

    python3 -m plimsoll.sweep --cluster tcp://head:8786 -- *.plt --heap 1.5,3 -o sweep.parquet
    python3 -m plimsoll.sweep --workers 8 -- *.plt --heap 1.5,3 -o sweep.parquet

The arguments after `--` are those of `plimsoll sim`, and the file is the same, byte for byte. Each
simulation is a process `plimsoll sim … --cell N` on a worker. A worker needs the program and the traces, at
the same paths; it needs nothing of this module. An interrupted sweep goes on, here or with `plimsoll sim` on
one machine.

It needs the package `distributed`.
"""

import argparse
import fcntl
import json
import os
import platform
import subprocess
import sys
import time
import zlib

#: Simulations that are given to the cluster ahead of each of its threads.
_AHEAD = 3
#: The shortest time between two lines of progress, seconds.
_PACE = 0.5


class SweepError(Exception):
    """A sweep cannot go on. Earlier results are kept."""


def sweep(client, args, plimsoll="plimsoll", progress=None):
    """Makes a sweep on the cluster of a `distributed.Client`, and returns the exit status of `plimsoll sim`.

    `args` are those of `plimsoll sim`, with `-o FILE`. `plimsoll` is the program's path on the workers and
    here. `progress`, if given, is called with (simulations done, all of them, part of the work that is done).

    Raises SweepError when `plimsoll sim` refuses, or when a simulation could not be made on a worker. All
    others are kept then, and the same call goes on."""
    import cloudpickle
    from distributed import as_completed

    # Workers get the functions themselves, so that they need not have this module.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    plan = json.loads(_call([plimsoll, "sim", *args, "--plan"]))
    if plan["cells_file"] is None:
        raise SweepError("a sweep on a cluster needs a file: give -o FILE")
    todo = [cell for cell in plan["cells"] if not cell["done"]]
    events = {cell["number"]: cell["events"] for cell in todo}
    numbers = iter(events)
    work, failed = [0, 0], []

    def submit():
        number = next(numbers, None)
        if number is None:
            return []
        order = (plimsoll, list(args), os.getcwd(), number)
        return [client.submit(_simulate, *order, pure=False)]

    with _Cells(plan["cells_file"]) as cells:
        ahead = _AHEAD * max(sum(client.nthreads().values()), 1)
        first = [future for _ in range(min(ahead, len(todo))) for future in submit()]
        waiting = as_completed(first)
        for future in waiting:
            try:
                number, line, why = future.result()
            except Exception as error:
                number, line, why = None, None, _why(error)
            if line is None:
                failed.append(why)
            else:
                cells.add(line)
                work[0] += 1
                work[1] += events[number]
            waiting.update(submit())
            if progress:
                progress(work[0], len(todo), work[1] / max(sum(events.values()), 1))
    if failed:
        raise SweepError(f"{len(failed)} of {len(todo)} simulations could not be made: {failed[0]}")
    # All is kept now: this writes the file.
    return subprocess.run([plimsoll, "sim", *args], check=False).returncode


def _why(error):
    """Why a simulation did not come back."""
    if type(error).__name__ == "KilledWorker":
        return f"the workers that made it died, perhaps for lack of memory: {error}"
    return str(error)


def _simulate(plimsoll, args, folder, number):
    """Runs on a worker: one simulation. Returns its number, a line of FILE.cells or None, and why there is
    none."""
    try:
        line = _call([plimsoll, "sim", *args, "--cell", str(number)], cwd=folder)
    except SweepError as error:
        return number, None, f"on worker {platform.node()}: {error}"
    if not _is_whole(line):
        said = f"simulation {number} printed no simulation, but {line[:200]!r}"
        return number, None, f"on worker {platform.node()}: {said}"
    return number, line, None


def _call(command, cwd=None):
    """The output of a command."""
    try:
        done = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError as error:
        raise SweepError(f"{command[0]} cannot be started in {cwd or os.getcwd()}: {error}") from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise SweepError(said or f"it ended with status {done.returncode}")
    return done.stdout.decode()


def _is_whole(line):
    """Whether a line has its end and its checksum."""
    text = line.encode()
    try:
        return text.endswith(b"\n") and int(text[:8], 16) == zlib.crc32(text[9:-1])
    except ValueError:
        return False


class _Cells:
    """FILE.cells, to which one process at a time adds lines."""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        self._file = open(self.path, "ab+")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise SweepError(f"{self.path}: another sweep adds to it just now") from None
        if self._file.tell() > 0:
            # A line that was written by half becomes one of its own, which is passed over.
            self._file.seek(-1, os.SEEK_END)
            if self._file.read(1) != b"\n":
                self.add("\n")
        return self

    def add(self, line):
        try:
            self._file.write(line.encode())
            self._file.flush()
        except OSError as error:
            raise SweepError(f"{self.path}: {error}; what was simulated before is kept") from None

    def __exit__(self, *_):
        self._file.close()


class _Line:
    """The progress, as a line on a terminal."""

    def __init__(self):
        self.begun = time.monotonic()
        self.last = 0.0

    def __call__(self, done, count, part):
        now = time.monotonic()
        if not sys.stderr.isatty() or (now - self.last < _PACE and done < count):
            return
        self.last = now
        bar = "#" * int(24 * part)
        left = (now - self.begun) * (1 - part) / part if part > 0 else 0.0
        end = "\n" if done == count else ""
        sys.stderr.write(f"\r\x1b[K[{bar:-<24}] {done} of {count} simulations, {left:.0f} s left{end}")
        sys.stderr.flush()


def main():
    """The command line."""
    parser = argparse.ArgumentParser(prog="python3 -m plimsoll.sweep", description=__doc__.splitlines()[0])
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--cluster", metavar="ADDRESS", help="the scheduler of a Dask cluster: tcp://head:8786"
    )
    where.add_argument(
        "--workers", metavar="N", type=int, help="start a cluster of N workers on this machine"
    )
    parser.add_argument(
        "--plimsoll", metavar="PATH", default="plimsoll", help="the program, on the workers and here"
    )
    parser.add_argument("args", metavar="ARGS", nargs="+", help="after --: the arguments of plimsoll sim")
    given = parser.parse_args()
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        sys.exit("plimsoll.sweep: the package `distributed` is missing: pip install distributed")
    try:
        if given.cluster:
            with Client(given.cluster) as client:
                return sweep(client, given.args, given.plimsoll, _Line())
        local = LocalCluster(n_workers=given.workers, threads_per_worker=1, dashboard_address=None)
        with local, Client(local) as client:
            return sweep(client, given.args, given.plimsoll, _Line())
    except (SweepError, OSError) as error:
        sys.exit(f"plimsoll.sweep: {error}")


if __name__ == "__main__":
    sys.exit(main())
