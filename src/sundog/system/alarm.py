"""A descriptor that becomes readable at a moment: one of the kernel's timers, for threads that sleep in epoll.

Owns the descriptor and the system calls (Python wraps them only from 3.13 on). A timer among the sockets costs
the threads that read them nothing until it rings: no time limit to work out before each sleep, no look at a clock after
it. Runs in any process, any thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import time

from sundog.system.descriptors import apart, is_still, mark_of

_libc = ctypes.CDLL(None, use_errno=True)
_RELATIVE = 0


class _Time(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Timer(ctypes.Structure):
    _fields_ = (("interval", _Time), ("value", _Time))


class Alarm:
    """One timer on the monotonic clock (`time.monotonic`)."""

    def __init__(self) -> None:
        self.fd: int = _libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            code = ctypes.get_errno()
            raise OSError(code, f"timerfd_create: {os.strerror(code)}")
        self.fd = apart(self.fd)
        self._mark = mark_of(self.fd)

    def set(self, due_s: float | None) -> None:
        """Ring at a moment (at once if it is past); None never rings."""
        nanoseconds = 0 if due_s is None else max(1, int((due_s - time.monotonic()) * 1e9))
        timer = _Timer(_Time(0, 0), _Time(*divmod(nanoseconds, 1_000_000_000)))
        if _libc.timerfd_settime(self.fd, _RELATIVE, ctypes.byref(timer), None):
            code = ctypes.get_errno()
            raise OSError(code, f"timerfd_settime: {os.strerror(code)}")

    def hush(self) -> None:
        """After it rang: no longer readable."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.fd, 8)

    def close(self) -> None:
        """Give the descriptor back."""
        fd, self.fd = self.fd, -1
        if fd >= 0 and is_still(fd, self._mark):  # else the program has closed it
            os.close(fd)
