"""Where every thread and every asyncio task of this process is, as rows that another process can show.

Reads frames and keeps nothing: a frame holds its variables, so none may outlive the call. Runs in the process that is
looked at, in a thread made for the look; needs the interpreter, and nothing else: no lock of ours, no user code.
`worker/stacks.py` words a single stack for an error; this module tells all of them as data.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FrameType
from typing import TYPE_CHECKING

from sundog.wire.looks import ProcessStacks, RunningCall, Stack, StackFrame

if TYPE_CHECKING:
    from asyncio import Task

PACKAGE_DIR = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_INNER_MAX = 80
_OUTER_MAX = 20
_TASKS_MAX = 2_000
_TRIES = 20
_CHAINS = (("cr_frame", "cr_await"), ("gi_frame", "gi_yieldfrom"), ("ag_frame", "ag_await"))

# Returns the call that a frame runs, if this is the frame in which a worker runs a call.
CallOf = Callable[[FrameType], RunningCall | None]


def stacks_here(call_of: CallOf, objects: Mapping[int, str] | None = None) -> ProcessStacks:
    """Tell all stacks of this process but that of the thread which asks.

    Args:
        call_of: which call a frame runs.
        objects: the objects that futures stand for, by the futures' addresses.
    """
    names = {thread.ident: thread for thread in threading.enumerate()}
    frames = sys._current_frames()
    frames.pop(threading.get_ident(), None)
    calls: dict[str, RunningCall] = {}
    threads = []
    try:
        for ident, frame in frames.items():
            thread = names.get(ident)
            name = thread.name if thread is not None else f"thread {ident:#x}"
            stack = _stack(name, _outwards(frame), call_of, calls)
            threads.append(stack._replace(ours=name.startswith("sundog-") and stack.call is None))
    finally:
        # otherwise this frame, which is one of them, would keep the variables of every thread alive
        frames.clear()
    tasks, omitted = _loop_tasks(call_of, calls, objects or {})
    threads.sort(key=lambda each: (each.ours, each.name != "MainThread", each.name))
    return ProcessStacks(tuple(threads), tuple(tasks), tuple(calls.values()), omitted)


def calls_here(call_of: CallOf) -> tuple[RunningCall, ...]:
    """The calls that run in this process now, without their stacks."""
    calls: dict[str, RunningCall] = {}
    frames = sys._current_frames()
    frames.pop(threading.get_ident(), None)
    try:
        for frame in frames.values():
            _find_call(_outwards(frame), call_of, calls)
    finally:
        frames.clear()
    if "asyncio" in sys.modules:
        for task in _all_tasks()[:_TASKS_MAX]:
            coroutine = task.get_coro()
            outermost: FrameType | None = getattr(coroutine, "cr_frame", None)
            if outermost is not None and not task.done():
                _find_call((outermost,), call_of, calls)
    return tuple(calls.values())


def _find_call(frames: Iterable[FrameType], call_of: CallOf, calls: dict[str, RunningCall]) -> None:
    for frame in frames:
        if frame.f_code.co_filename.startswith(PACKAGE_DIR):
            call = call_of(frame)
            if call is not None:
                calls[call.task_id] = call
                return


def _stack(name: str, frames: Iterable[FrameType], call_of: CallOf, calls: dict[str, RunningCall]) -> Stack:
    """One stack; frames outside of the one that runs a call are how its worker began, and are left out."""
    found: list[StackFrame] = []
    call: RunningCall | None = None
    for frame in frames:
        code = frame.f_code
        file = code.co_filename
        found.append(StackFrame(code.co_qualname, file, frame.f_lineno or 0, file.startswith(PACKAGE_DIR)))
        if found[-1].ours and call is None:
            call = call_of(frame)
            if call is not None:
                calls[call.task_id] = call
                break
    omitted = max(0, len(found) - _INNER_MAX - _OUTER_MAX)
    if omitted:
        del found[_INNER_MAX : _INNER_MAX + omitted]
    return Stack(name, tuple(found), call, omitted=omitted)


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


# ---------------------------------------------------------------------- event loops
def _loop_tasks(
    call_of: CallOf, calls: dict[str, RunningCall], objects: Mapping[int, str]
) -> tuple[list[Stack], int]:
    """The tasks of all event loops, each with its chain of awaits; and how many more there are."""
    if "asyncio" not in sys.modules:
        return [], 0
    tasks = [task for task in _all_tasks() if not task.done()]
    found = []
    for task in tasks[:_TASKS_MAX]:
        chain, last = await_chain(task.get_coro())
        stack = _stack(task.get_name(), chain, call_of, calls)
        future = getattr(task, "_fut_waiter", None) or last
        waits_for = f"object {objects[id(future)]}" if id(future) in objects else _awaited(future)
        found.append(stack._replace(loop=True, waits_for=waits_for))
    return found, len(tasks) - len(found)


def _all_tasks() -> list[Task[object]]:
    from asyncio import tasks as module

    for name in ("_all_tasks", "_scheduled_tasks"):  # the name depends on the version of Python
        known: Iterable[Task[object]] | None = getattr(module, name, None)
        if known is None:
            continue
        for _ in range(_TRIES):
            try:
                return [*known, *(getattr(module, "_eager_tasks", None) or ())]
            except RuntimeError:
                continue  # the set changed during the iteration
    import gc

    return [each for each in gc.get_objects() if isinstance(each, module.Task)]


def await_chain(awaited: object) -> tuple[list[FrameType], object]:
    """Frames of a coroutine and of the coroutines that it awaits, innermost first; and what the last one awaits."""
    frames: list[FrameType] = []
    while awaited is not None:
        for frame_name, next_name in _CHAINS:
            frame = getattr(awaited, frame_name, None)
            if frame is not None:
                frames.append(frame)
                awaited = getattr(awaited, next_name, None)
                break
        else:
            break
    frames.reverse()
    return frames, awaited


def _awaited(future: object) -> str:
    """What an asyncio task waits for, in words; found without calling user code."""
    if future is None:
        return ""
    children = getattr(future, "_children", None)
    if isinstance(children, list):
        return f"gather of {len(children)}, {sum(not child.done() for child in children)} not done"
    kind = type(future).__name__
    name = getattr(future, "get_name", None)
    if callable(name) and kind == "Task":
        return f"task {name()}"
    return kind
