"""Which task or call a frame of this worker runs: read from the variables of the functions that run them.

Owns the list of those functions; nothing is noted while tasks run, so this costs them nothing. Runs in a worker, in
the thread that looks.
"""

from __future__ import annotations

from types import FrameType

from sundog.owner import context
from sundog.wire.looks import RunningCall
from sundog.worker.actor_life import ActorLife
from sundog.worker.async_actor import AsyncServing
from sundog.worker.executor import Executor

_CALLS = (Executor.run.__code__, Executor._run_any.__code__, AsyncServing._one.__code__)
_CONSTRUCTOR = ActorLife._construct.__code__


def call_of(frame: FrameType) -> RunningCall | None:
    """The call that this frame runs; None if the frame runs no call, or the call has not begun."""
    code = frame.f_code
    if code is _CONSTRUCTOR:
        found = frame.f_locals
        if "start" not in found:
            return None
        return RunningCall(
            found["actor_id"].hex(),
            f"{context.facts.actor_class}.__init__",
            found["start"],
            found["incarnation"],
        )
    if code not in _CALLS:
        return None
    found = frame.f_locals
    start, name = found.get("start"), found.get("name")
    if start is None or not isinstance(name, str):
        return None
    if context.facts.actor_class and isinstance(found.get("what"), str):
        name = f"{context.facts.actor_class}.{found['what']}" if name == found["what"] else name
    return RunningCall(found["task_id"].hex(), name, start, found.get("attempt", 0))
