"""What a dead actor's process may have begun: the difference between a call made again and a call that may have run.

Owns the rule, and reads the dead process' flight recorder for it; decides nothing else. Runs under the owner's lock,
once for each caller of an actor that died.

A process that runs one call at a time notes each start before the body runs, and records each end before the next
start. So of the calls that were never answered it has begun those whose end is recorded (their replies were lost with
it) and the one noted last; whoever made the other calls, it has *certainly not* begun the rest. Where several run at a
time starts overtake each other and nothing is certain: all count as begun.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from sundog import events

if TYPE_CHECKING:
    from sundog.options import ActorOptions


def begun_calls(ring_path: str, unanswered: Iterable[bytes], *, certain: bool) -> set[bytes]:
    """Which of the calls a dead process may have begun.

    Args:
        certain: whether it ran one call at a time, and recorded.
    """
    wanted = set(unanswered)
    if not certain or not wanted:
        return wanted
    read = events.read_ring(ring_path)
    if read is None or read[0].unwritten:
        return wanted  # the disk is full or the ring is gone, so the end of a task may not have been recorded
    ended = {event.task_id for event in read[1] if event.kind == events.CALL}
    ended.add(events.started_last(ring_path) or b"")
    return wanted & ended


def runs_several(cls: type, options: ActorOptions) -> bool:
    """Whether an actor may run several calls at a time."""
    return bool(options.concurrency_groups) or (options.max_concurrency or 1) > 1 or is_async_class(cls)


@lru_cache(maxsize=256)
def is_async_class(cls: type) -> bool:
    """Whether any method is a coroutine or an async generator."""
    import inspect  # slow to load, and every process loads this module at its start

    seen: set[str] = set()
    for base in cls.__mro__:
        if base is object:
            continue
        for name, member in vars(base).items():
            if name in seen:
                continue  # a subclass has another member of this name
            seen.add(name)
            member = getattr(member, "__func__", member)
            if inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member):
                return True
    return False
