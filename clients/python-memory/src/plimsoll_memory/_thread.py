"""Threads that do not disturb the program."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

from plimsoll_memory._errors import ResourceError

FAULTS = {signal.SIGBUS, signal.SIGSEGV, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP}


def start_quietly(name: str, run: Callable[[], None]) -> threading.Thread:
    """Starts a thread that takes no signal that is meant for the program, and does not keep it from ending.

    Raises:
        ResourceError: The kernel gives no thread.
    """
    thread = threading.Thread(target=run, name=name, daemon=True)
    # The thread inherits the mask. A fault of its own must not be blocked.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - FAULTS)
    try:
        thread.start()
    except RuntimeError as error:
        raise ResourceError(f"cannot start a thread: {error}") from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return thread
