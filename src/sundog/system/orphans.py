"""Adopting orphans: what a dead descendant leaves running becomes a child of ours, and not of the machine's init.

Owns one system call, and the search for descendants. The call is made through `_ctypes` alone, for `ctypes` takes ten
times as long to import and this comes before the first task: the node and the zygote adopt before there is a process
that could be orphaned, so that no kill, however early, leaves a process that none ends. Called once in each of them, on
the main thread.
"""

from __future__ import annotations

import contextlib
import os
import signal

_PR_SET_CHILD_SUBREAPER = 36


def adopt() -> None:
    """Be the parent of every orphan among our descendants from now on. Forks do not inherit this."""
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import _ctypes

        prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]
        _ctypes.call_function(prctl, (_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def kill_children(pid: int) -> None:
    """SIGKILL every descendant: workers, what they started, orphans that came to us as subreaper."""
    for child in descendants(pid):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(child, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, 0)[0]:
            for child in descendants(pid):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(child, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """Pids below a process, children before grandchildren."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        current = waiting.pop()
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{current}/task"):
                with open(f"/proc/{current}/task/{thread}/children", encoding="ascii") as file:
                    children = [int(each) for each in file.read().split()]
                found.extend(children)
                waiting.extend(children)
    return found
