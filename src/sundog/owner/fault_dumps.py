"""Stacks of a process that cannot run Python: written by the fault handler when a signal asks for them.

Owns the signal, and the file of the session that the dumps go to. The handler is C code of Python's own `faulthandler`:
it needs neither the interpreter lock nor the main thread. The zygote registers it once and its workers inherit it, so
it costs a worker nothing; node and driver register it at their start. A program's own handler for the signal comes
first: where there is one, ours is not registered, or gives up its place, and a mark beside the file says so. Who asks
is `observe/fault_dumps.py`, in the command's process.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal

from sundog.system.descriptors import is_still, mark_of

# The last of the signals that no library is known to use. Timeouts use it too (`owner/timeouts.py`).
SIGNAL = signal.SIGRTMIN + 7
FILE = "stacks.txt"

_fd = -1
_path = ""
_pid = 0
_mark = (0, 0)


def listen(session_path: str, *, politely: bool = False) -> None:
    """From now on this process, and processes that it forks, write their stacks on request.

    Args:
        session_path: The folder of the session.
        politely: Only if no other code in this process handles the signal.
    """
    global _fd, _mark, _path, _pid
    path = f"{session_path}/{FILE}"
    if politely and is_caught("/proc/self/status"):
        _path = path
        give_up()
        return
    # Without the file (full disk, no descriptor), stacks can be read only while the process runs Python.
    with contextlib.suppress(OSError, RuntimeError, ValueError):
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        faulthandler.register(SIGNAL, fd, all_threads=True)
        _fd, _mark, _path, _pid = fd, mark_of(fd), path, os.getpid()


def stop() -> None:
    """Undo `listen`, in the process that called it."""
    global _fd
    if _fd >= 0 and _pid == os.getpid():
        if _path:
            faulthandler.unregister(SIGNAL)
        fd, _fd = _fd, -1
        if is_still(fd, _mark):  # else the program has closed it, and the number may be of a file of its own
            os.close(fd)


def give_up() -> None:
    """The program sets its own handler for the signal: leave a mark, so that no process sends the signal."""
    global _path
    if _path:
        path, _path = _path, ""
        with contextlib.suppress(OSError):
            os.close(os.open(mark(path, os.getpid()), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def mark(path: str, pid: int) -> str:
    """The file that says: this process must not be sent the signal."""
    return f"{path}.not-{pid}"


def is_caught(status_path: str) -> bool:
    """Whether a process handles the signal; an unhandled signal would end it."""
    try:
        with open(
            status_path, "rb"
        ) as file:  # in binary mode: text mode would import a codec at the start of every driver
            for line in file:
                if line.startswith(b"SigCgt:"):
                    return bool(int(line.split()[1], 16) >> (SIGNAL - 1) & 1)
    except (OSError, ValueError):
        pass
    return False
