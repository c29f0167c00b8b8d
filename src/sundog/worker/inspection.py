"""What a worker does for those who want to see more of a task: a stop at its exception.

Owns the choice of what is done when a task fails. Refuses to change its outcome: whatever goes wrong here is told, and
the task fails as it would have. A task that succeeds never comes here, unless it was asked for (`Inspect`). Runs in
the thread of the task.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sundog import notices
from sundog.exceptions import AsyncioActorExit
from sundog.owner import context
from sundog.owner.lineage import CopyLost
from sundog.wire import lanes as wire
from sundog.wire.inspect import Inspect

if TYPE_CHECKING:
    from sundog.worker.answers import AnswerLane
    from sundog.worker.executor import Executor

_NOT_FAILURES = (CopyLost, AsyncioActorExit)
_NOTHING = Inspect()


class Inspection:
    """Looks at the tasks of one worker."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.of_actor: Inspect | None = None

    def arm(self, before: Callable[[], None] | None) -> None:
        """Have something called before each task and call, or nothing any more: then they cost what they did."""
        executor = self._executor
        executor.__dict__.pop("run", None)
        if before is None:
            return
        plain = executor.run

        def run(lane: AnswerLane, item: wire.Item, last: bool = False) -> float:
            before()
            return plain(lane, item, last)

        executor.run = run  # type: ignore[method-assign]

    def failed(self, lane: AnswerLane, item: wire.Item, name: str, error: BaseException) -> None:
        """A task or call raised; its reply is not made yet."""
        if not isinstance(error, Exception) or isinstance(error, _NOT_FAILURES):
            return
        extra = item[4]
        asked = (extra.get(wire.EXTRA_INSPECT) if extra else None) or self.of_actor or _NOTHING
        config = self._executor.owner.config
        if not (asked.post_mortem or config.debug_post_mortem):
            return
        attempt = extra.get(wire.EXTRA_ATTEMPT, 0) if extra else 0
        token = context.running.set((item[0], name, attempt, lane.owner_id))
        try:
            self._executor.breakpoints.post_mortem(error)
        except Exception as trouble:
            notices.warn(f"{name}() cannot be stopped at its exception: {type(trouble).__name__}: {trouble}")
        finally:
            context.running.reset(token)

    def construction_failed(self, name: str, error: BaseException) -> None:
        """The constructor of an actor raised; its context is still set."""
        asked = self.of_actor or _NOTHING
        if isinstance(error, Exception) and (
            asked.post_mortem or self._executor.owner.config.debug_post_mortem
        ):
            self._executor.breakpoints.post_mortem(error)
