"""Adopting orphans: what a dead descendant leaves running becomes a child of ours, and not of the machine's init.

Owns one system call. It is made through `_ctypes` alone, for `ctypes` takes ten times as long to import and this comes
before the first task: the node and the zygote adopt before there is anybody to be orphaned, so that no kill, however
early, leaves a process that nobody ends. Called once in each of them, on the main thread.
"""

from __future__ import annotations

import contextlib

_PR_SET_CHILD_SUBREAPER = 36


def adopt() -> None:
    """Be the parent of every orphan among our descendants from now on. Forks do not inherit this."""
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import _ctypes

        prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]
        _ctypes.call_function(prctl, (_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
