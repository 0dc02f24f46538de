"""Processes that tests start end with the tests, however these end: a killed run leaves nothing behind that is busy."""

from __future__ import annotations

import ctypes
import signal
import sys

#: From Linux' <sys/prctl.h>: the signal that a process gets when the thread that started it ends.
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def end_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends; a `preexec_fn`, started from a main thread only."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
