"""Where a thread or a coroutine of this process is, as text that its user understands.

Reads frames and keeps nothing: a frame holds its variables, so none may outlive the call. Any thread of a worker.
The user's frames are shown, outermost call first, as in a traceback; ours only when there are no others.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

_PACKAGE_DIR = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_WORKER_DIR = os.path.dirname(os.path.abspath(__file__)) + os.sep
_FRAMES_MAX = 30


def of_thread(ident: int, *, only_users: bool = False) -> str:
    """The stack of a thread; empty if the thread has ended, or (`only_users`) runs no user code."""
    frame = sys._current_frames().get(ident)
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    frames.reverse()
    return _format(frames, only_users)


def of_coroutine(coroutine: object) -> str:
    """The place at which a suspended coroutine waits, through all awaited coroutines."""
    frames = []
    while coroutine is not None:
        for prefix in ("cr", "ag", "gi"):
            frame = getattr(coroutine, f"{prefix}_frame", None)
            if frame is not None:
                frames.append(frame)
                coroutine = getattr(coroutine, f"{prefix}_await", None) or getattr(
                    coroutine, "gi_yieldfrom", None
                )
                break
        else:
            break  # a future, or an awaitable of another library: it has no frame
    return _format(frames)


def _format(frames: list[FrameType], only_users: bool = False) -> str:
    # imported late: it loads tokenize and re, and most workers are never asked for their stacks
    import traceback

    files = [frame.f_code.co_filename for frame in frames]
    # User code begins where the worker last called code that is not sundog's. Frames before that only start a
    # program, a thread, or a turn of an event loop.
    first = 0
    for number, file in enumerate(files[1:], 1):
        if files[number - 1].startswith(_WORKER_DIR) and not file.startswith(_PACKAGE_DIR):
            first = number
    users = [frame for frame in frames[first:] if not frame.f_code.co_filename.startswith(_PACKAGE_DIR)]
    if files and first == 0 and files[0].startswith("<"):
        users = []  # a worker's main thread between two tasks
    lines = [(frame.f_code, frame.f_lineno) for frame in (users if users or only_users else frames)]
    summary = traceback.StackSummary.from_list(
        [(code.co_filename, line, code.co_name, None) for code, line in lines[-_FRAMES_MAX:]]
    )
    return "".join(summary.format()).rstrip("\n")
