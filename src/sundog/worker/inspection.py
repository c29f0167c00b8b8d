"""What a worker does for a user who wants to see more of a task: a stop at its exception, a capsule, a profile.

Owns the choice of what is done when a task fails, and around a task of which more was asked (`Inspect`, `sundog
capture`). Refuses to change its outcome: whatever goes wrong here is told, and the task ends as it would have. A task
that succeeds never comes here, unless it was asked for. Runs in the thread of the task.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TYPE_CHECKING

from sundog import notices
from sundog.exceptions import AsyncioActorExit
from sundog.owner import context
from sundog.owner.objects import CopyLost
from sundog.wire import lanes as wire
from sundog.wire.inspect import ALL, Inspect, measure_everything
from sundog.worker.capsuling import Before, Capsules
from sundog.worker.results import Partial

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterator

    from sundog.capsules.answers import ItemTally
    from sundog.capsules.rows import Outcome
    from sundog.wire.dicts import Registration
    from sundog.wire.lanes import Extra
    from sundog.worker.answers import AnswerLane
    from sundog.worker.executor import Executor
    from sundog.worker.profiles import Profiler

_NOT_FAILURES = (CopyLost, AsyncioActorExit)
_NOTHING = Inspect()


class Inspection:
    """Looks at the tasks of one worker."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.capsules = Capsules(executor)
        self.active = False  # whether all tasks are captured, not only those that ask for it
        self._of_actor: Inspect | None = None
        self._captured: frozenset[str] = frozenset()
        self._before: dict[bytes, Before] = {}
        self._hook: Callable[[], None] | None = None
        self._profilers: dict[str, Profiler] = {}

    # ------------------------------------------------------------------ what is asked
    def become_actor(self, asked: Inspect | None) -> None:
        """What was asked of all calls of the actor that this worker becomes."""
        self._of_actor = asked
        self._choose()

    def capture(self, names: tuple[str, ...]) -> None:
        """Keep capsules of these functions and methods, however they end (by the reader thread)."""
        self._captured = frozenset(names)
        self._choose()

    def arm(self, before: Callable[[], None] | None) -> None:
        """Have something called before each task and call, or nothing any more: then they cost what they did."""
        self._hook = before
        self._choose()

    def _choose(self) -> None:
        """Tasks take the common way, unless there is something to do for each."""
        executor, asked = self._executor, self._of_actor
        self.active = bool(self._captured or (asked is not None and (asked.capsule or asked.profile)))
        executor.__dict__.pop("run", None)
        hook = self._hook
        if self.active or hook is not None:
            plain = executor._run_with_options if self.active else executor.run

            def run(lane: AnswerLane, item: wire.Item, last: bool = False) -> float:
                if hook is not None:
                    hook()
                end: float = plain(lane, item)
                return end

            executor.run = run  # type: ignore[method-assign]

    def _asked(self, extra: Extra | None) -> Inspect:
        return (extra.get(wire.EXTRA_INSPECT) if extra else None) or self._of_actor or _NOTHING

    # ------------------------------------------------------------------ around a task of which more was asked
    def wrapped(
        self, function: Callable[..., object], lane: AnswerLane, item: wire.Item, name: str
    ) -> Callable[..., object]:
        """A function that does the same and, besides, what the user asked for."""
        asked = self._asked(item[4])
        keeps = (
            asked.capsule or name in self._captured or f"{context.facts.actor_class}.{name}" in self._captured
        )
        if asked.profile:
            function = self._profiled(asked.profile, function, name)
        if not keeps:
            return function

        # `owner/moments.py` names this function: a cancel may interrupt the code of the user that it calls.
        def kept_run(*args: object, **kwargs: object) -> object:
            self._begin(lane, item, name)
            result = function(*args, **kwargs)
            if type(result) is CoroutineType:
                return self._awaited(result, lane, item, name)
            if type(result) is GeneratorType:
                return self._iterated(result, lane, item, name)
            if type(result) is AsyncGeneratorType:
                return self._awaited_items(result, lane, item, name)
            self._returned(lane, item, name, result)
            return result

        return kept_run

    def _begin(self, lane: AnswerLane, item: wire.Item, name: str) -> None:
        """Keep a capsule of a run that may not come to an end: its process may die."""
        from sundog.capsules.rows import UNENDED

        before = self._before[item[0]] = self.capsules.note_before()
        self._keep(lane, item, name, UNENDED, before)

    def _profiled(self, kind: str, function: Callable[..., object], name: str) -> Callable[..., object]:
        is_all = kind.startswith(ALL)
        kind, _, names = kind.removeprefix(ALL).partition(":")
        if is_all:
            measure_everything(f"{kind}:{names}")
        profiler = self._profilers.get(kind)
        if profiler is None:
            from sundog.worker.profiles import make_profiler

            session = str(self._executor.owner.control.session["path"])
            profiler = self._profilers.setdefault(kind, make_profiler(kind, session))
        if names:
            profiler.choose(function, tuple(names.split(",")), only=is_all)
        label = f"{context.facts.actor_class}.{name}" if self._executor.actor_id is not None else name

        def profiled_run(*args: object, **kwargs: object) -> object:
            return profiler.call(function, label, args, kwargs)

        return profiled_run

    async def _awaited(
        self, coroutine: Awaitable[object], lane: AnswerLane, item: wire.Item, name: str
    ) -> object:
        result = await coroutine
        self._returned(lane, item, name, result)
        return result

    def _iterated(
        self, generator: Iterator[object], lane: AnswerLane, item: wire.Item, name: str
    ) -> Iterator[object]:
        from sundog.capsules.answers import ItemTally

        items = ItemTally()
        with contextlib.closing(generator), self._ended(items, lane, item, name):  # type: ignore[type-var]
            for each in generator:
                items.add(each)
                yield each

    async def _awaited_items(
        self, generator: AsyncGenerator[object], lane: AnswerLane, item: wire.Item, name: str
    ) -> AsyncIterator[object]:
        from sundog.capsules.answers import ItemTally

        items = ItemTally()
        async with contextlib.aclosing(generator):
            with self._ended(items, lane, item, name):
                async for each in generator:
                    items.add(each)
                    yield each

    @contextlib.contextmanager
    def _ended(self, items: ItemTally, lane: AnswerLane, item: wire.Item, name: str) -> Iterator[None]:
        """Keep the run of a generator that ends, or whose other items nobody wants; `failed` does if it raises."""
        try:
            yield
        except GeneratorExit:
            self._keep(lane, item, name, items.outcome(), self._before.pop(item[0], None))
            raise
        self._keep(lane, item, name, items.outcome(), self._before.pop(item[0], None))

    def _returned(self, lane: AnswerLane, item: wire.Item, name: str, result: object) -> None:
        from sundog.capsules.capture import outcome_of_result

        self._keep(lane, item, name, outcome_of_result(result), self._before.pop(item[0], None))

    def _keep(
        self, lane: AnswerLane, item: wire.Item, name: str, outcome: Outcome, before: Before | None
    ) -> None:
        try:
            self.capsules.keep(lane, item, name, outcome, before)
        except KeyboardInterrupt:
            raise
        except BaseException as trouble:  # user code has run, and may raise anything
            _tell(name, trouble)

    # ------------------------------------------------------------------ failures
    def failed(self, lane: AnswerLane, item: wire.Item, name: str, error: BaseException) -> None:
        """A task or call raised; its reply is not made yet."""
        before = self._before.pop(item[0], None) if self._before else None
        if type(error) is Partial:
            error = error.error
        if isinstance(error, _NOT_FAILURES):
            return
        extra = item[4]
        asked = self._asked(extra)
        config = self._executor.owner.config
        if config.capsule_on_failure or before is not None:
            try:
                outcome = self._outcome(item[0], error, before)
                if outcome is not None:
                    self.capsules.failed(lane, item, name, outcome, before)
            except BaseException as trouble:  # user code has run, and may raise anything
                _tell(name, trouble)
        if not isinstance(error, Exception):
            return
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

    def _outcome(self, task_id: bytes, error: BaseException, before: Before | None) -> Outcome | None:
        """How a run that raised has ended; None if it has not failed, and nobody asked for a capsule of it."""
        from sundog.capsules.capture import outcome_of_error

        executor, found = self._executor, outcome_of_error(error)
        if isinstance(error, Exception):
            return found
        overdue = executor.deadlines.running.get(task_id)
        if overdue is not None and overdue.stack is not None:
            text = f"it ran longer than timeout_s={overdue.timeout_s:g}"
            return found._replace(error="TaskTimeoutError", text=text)
        if isinstance(error, SystemExit) and (executor.actor_id is None or before is not None):
            return found
        if before is not None and (task_id in executor.cancelled or executor.interrupting == task_id):
            return found._replace(error="TaskCancelledError", text="it was cancelled")
        return found if before is not None else None

    def construction_failed(
        self, spec: Registration, actor_id: bytes, attempt: int, error: BaseException
    ) -> None:
        """The constructor of an actor raised; its context is still set."""
        if not isinstance(error, Exception):
            return
        config = self._executor.owner.config
        if config.capsule_on_failure:
            try:
                self.capsules.keep_construction(spec, actor_id, attempt, error)
            except BaseException as trouble:  # user code has run, and may raise anything
                _tell(f"{spec['class_name']}.__init__", trouble)
        if (self._of_actor or _NOTHING).post_mortem or config.debug_post_mortem:
            self._executor.breakpoints.post_mortem(error)


def _tell(name: str, trouble: BaseException) -> None:
    # a full disk, or an argument that cannot be read: the user did not ask for this capsule
    if notices.is_debugging():
        notices.detail(f"No capsule could be made of {name}(): {type(trouble).__name__}: {trouble}")
