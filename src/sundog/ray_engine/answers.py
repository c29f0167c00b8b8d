"""What a worker can say about itself when Home asks: where its threads and calls are.

Owns the answers. Runs in the thread that pushes, or in a task on the worker's node.
"""

from __future__ import annotations

import sys
import threading
import traceback
from typing import Any

from sundog.ray_engine import shim
from sundog.worker.stacks import of_coroutine

_OURS = ("sundog-push",)


def answer(question: Any) -> Any:
    """What is asked: "stacks"."""
    return stacks() if question == "stacks" else f"there is no question {question!r}"


def stacks() -> str:
    """Where every thread of this process is that runs a call, and every call of an asyncio actor."""
    frames = sys._current_frames()
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    calls = list(shim.now_running.values())
    out = []
    for each in calls:
        if each.coroutine is not None:
            out.append(f"{each.name} (coroutine)\n{of_coroutine(each.coroutine)}")
        elif each.thread in frames:
            text = "".join(traceback.format_stack(frames[each.thread]))
            out.append(f"{each.name} (thread {names.get(each.thread, each.thread)})\n{text}")
    return "\n".join(out) if out else "(no call runs here)"
