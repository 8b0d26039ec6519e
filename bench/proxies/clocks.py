"""The processor time of another process, to the nanosecond.

`/proc/PID/stat` counts in ticks of 10 ms, which is some percent of a short window.
"""

from __future__ import annotations

import ctypes
import os
import time

_C = ctypes.CDLL(None)


def cpu_seconds(pid: int) -> float:
    """What all threads of a process have used so far, in user and kernel mode."""
    clock = ctypes.c_int32()
    failed = _C.clock_getcpuclockid(pid, ctypes.byref(clock))
    if failed:
        raise OSError(failed, os.strerror(failed), f"process {pid}")
    return time.clock_gettime(clock.value)
