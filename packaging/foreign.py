"""A program that knows systemd's library alone, and nothing of ours: it keeps 150 MB, and drops them when
sd-event tells of memory pressure (sd_event_add_memory_pressure(3), systemd 254 and later). It says how much
of it was resident and in swap before it dropped anything."""

import ctypes
import sys


def status(field):
    """A size of /proc/self/status, kB."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))


systemd = ctypes.CDLL("libsystemd.so.0")
event, source = ctypes.c_void_p(), ctypes.c_void_p()
blocks = [bytearray(b"x" * (1 << 20)) for _ in range(150)]


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
def pressed(_source, _data):
    print("signalled", status("VmRSS"), status("VmSwap"), flush=True)
    blocks.clear()
    print("dropped", status("VmRSS"), flush=True)
    systemd.sd_event_exit(event, 0)
    return 0


if systemd.sd_event_default(ctypes.byref(event)) < 0:
    sys.exit("no event loop")
if systemd.sd_event_add_memory_pressure(event, ctypes.byref(source), pressed, None) < 0:
    sys.exit("the environment names nothing to watch")
print("ready", status("VmRSS"), flush=True)
sys.exit(systemd.sd_event_loop(event))
