"""A task that waits for a child runs the child itself, where that is safe: recursion without a process for each level.

::

    task ── get(ref) ──► the ref's task still waits for a worker ──► it runs here, in the same thread
                    └──► it runs elsewhere, or is not like its parent ──► the worker blocks and lends its CPU

Owns the rule what may run here, and the run. Safe is a task of the function that runs already, with the same demand
and plain arguments: what it could do to this process its parent could have done. Others keep a process of their own, so
that a crash is theirs alone. The child has its id, its record and its error like any other; only its process is its
parent's. Main thread of a worker that serves tasks.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pickle import loads
from typing import TYPE_CHECKING, Any

from sundog import events
from sundog.exceptions import WorkerCrashedError
from sundog.ids import RESULT_SUFFIX
from sundog.owner import context
from sundog.owner.lanes import OwnLane
from sundog.owner.rows import QUEUED, SENT, Shape, Task
from sundog.serialize.fingerprint import fingerprint
from sundog.worker.answers import AnswerLane, LoadedFn

if TYPE_CHECKING:
    from collections.abc import Callable

    from sundog.owner.core import Owner
    from sundog.serialize.pack import Packed
    from sundog.worker.executor import Executor
    from sundog.worker.serving import Serving

_DEPTH_MAX = 50  # arbitrary: a deeper recursion continues in another process
_TASK_BYTES = 16
_time = time.time


class _Answers(AnswerLane):
    """Where the replies of a task go that runs here: to its owner, which is this process."""

    __slots__ = ()

    def flush(self, shm_root: str) -> None:
        """Nothing is sent: the run takes them."""


class Inline:
    """Runs children of the running task in its place."""

    def __init__(self, owner: Owner, executor: Executor, serving: Serving) -> None:
        self.owner = owner
        self.executor = executor
        self.serving = serving
        self._lane = OwnLane(b"", 0, None, None)
        self._answers = _Answers(b"", None)  # type: ignore[arg-type]
        self._depth = 0
        self._codes: dict[int, str] = {}  # id of one of our functions -> its fingerprint
        self._env_key: str | None = None

    def begin(self) -> None:
        """The owner knows now which process this is."""
        self._lane.worker, self._lane.pid = self.owner.me, os.getpid()
        self._answers.owner_id = self.owner.me

    @property
    def depth(self) -> int:
        """How many nested children run here now."""
        return self._depth

    def run(self, oids: list[bytes]) -> bool:
        """Run the tasks of missing objects that may run here, one after another; returns whether all objects
        are ready then.
        """
        noted = context.running.get() or context.main_task
        if (
            noted is None
            or self._depth >= _DEPTH_MAX
            or threading.get_ident() != self.serving.main_thread
            or self.executor.actor_id is not None
            or not self._has_stack()
        ):
            return False
        ready = self.owner.ready
        like: set[str] | None = None
        for oid in oids:
            if oid in ready:
                continue
            like = self._codes_of(noted) if like is None else like
            task = self._take(oid, like)
            if task is None:
                continue
            if not self._depth:
                # If this process dies now, the owner of the waiting task must know that the waiting task had
                # begun.
                self.executor.ring.stands_still(noted[0], self.executor.ring.started_at())
            self._depth += 1
            try:
                self._execute(task)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.executor.ring.stands_still(b"", 0.0)
        if not self._depth and like is not None:
            with self.owner.lock:
                self.owner.dispatch.dispatch_all()  # fewer workers are needed now
        return all(oid in ready for oid in oids)

    @staticmethod
    def _has_stack() -> bool:
        """Whether half of the stack that Python allows is left."""
        try:
            sys._getframe(sys.getrecursionlimit() // 2)
        except ValueError:
            return True
        return False

    # ------------------------------------------------------------------ what may run here
    def _codes_of(self, noted: Any) -> set[str]:
        """The fingerprints of the function that runs here; more than one if its owner has several of that name."""
        name, owner_id = noted[1], noted[3]
        lanes = [self._answers] if owner_id == self.owner.me else list(self.serving.lanes.values())
        return {
            fn.code
            for lane in lanes
            if lane.owner_id == owner_id
            for fn in list(lane.fns.values())
            if fn.name == name and fn.code
        }

    def _take(self, oid: bytes, like: set[str]) -> Task | None:
        """The task that makes an object, removed from its queue; None if it must not run here, or runs
        already.
        """
        owner = self.owner
        with owner.lock:
            task = owner.table.get(oid[:_TASK_BYTES])
            if task is None or task.state != QUEUED or not self._is_plain(task):
                return None
            shape = task.fn.shape
            if shape is None or not self._fits(shape) or self._code_of(task) not in like:
                return None
            try:
                shape.queue.remove(task)
            except ValueError:
                return None  # the task is between two queues
            task.state, task.lane = SENT, self._lane
            self._lane.inflight[task.id] = task
        return task

    @staticmethod
    def _is_plain(task: Task) -> bool:
        """Whether a task has one result, plain arguments and no options that its parent's run does not have."""
        fn = task.fn
        return (
            fn.one
            and fn.code is not None
            and task.actor is None
            and task.extra is None
            and task.holds is None
            and task.deps is None
            and not task.attempt
            and not task.cancelled
            and not fn.max_calls
            and not fn.retry_exceptions
            and (task.args is None or (type(task.args) is bytes and b"rebuild" not in task.args))
        )

    def _fits(self, shape: Shape) -> bool:
        """Whether the lease that runs here is what the task asks for."""
        spec = shape.spec
        resources = context.facts.resources
        return (
            shape.crew is None
            and dict(spec.resources) == resources
            and not set(resources) - {"CPU"}
            and spec.strategy == ("default",)
            and not (spec.label_selector or spec.permanent or spec.memory_cap or spec.fallbacks)
            and spec.env_key == self._own_env_key()
        )

    def _own_env_key(self) -> str:
        if self._env_key is None:
            from sundog import engines

            engine = engines.current()
            assert engine is not None
            self._env_key = engine.env_key(None)
        return self._env_key

    def _code_of(self, task: Task) -> str:
        number = task.fn.number
        found = self._codes.get(number)
        if found is None:
            kept: Any = task.fn.code.function  # type: ignore[union-attr]
            function = kept() if type(kept).__name__ in ("ReferenceType", "weakref") else kept
            found = self._codes[number] = fingerprint(function) if function is not None else ""
        return found

    # ------------------------------------------------------------------ the run
    def _loaded(self, task: Task) -> LoadedFn:
        fn, fns = task.fn, self._answers.fns
        loaded = fns.get(fn.number)
        if loaded is None:
            code = fn.code
            assert code is not None
            loaded = fns[fn.number] = LoadedFn(
                (fn.number, code.hash, code.blob, fn.name, fn.returns, fn.retry_exceptions, fn.max_calls)
            )
        if loaded.function is None:
            self.executor.load(loaded)
        return loaded

    def _execute(self, task: Task) -> None:
        executor, ring = self.executor, self.executor.ring
        parent, parent_began = context.main_task, ring.started_at()
        start = _time()
        flags, name_id = 0, 0
        context.main_task = (task.id, task.fn.name, 0, self.owner.me)
        token = context.running.set(context.main_task)
        ring.started(task.id, start, 0)
        try:
            loaded = self._loaded(task)
            name_id = loaded.name_id
            ring.started(task.id, start, name_id)
            payload = () if task.args is None else loads(task.args)
            result = _call(loaded.function, payload)  # kept until it is stored: it may hold the only refs
            packed = executor.pack_result(result, task.fn.name)
            self._put(task, packed)
        except Exception as error:
            flags = events.FAILED
            executor.reply_error(self._answers, task.id, task.fn.name, error, False, None, _time() - start)
            replies, self._answers.out = self._answers.out, []
            self._answers.out_bytes = 0
            with self.owner.lock:
                self.owner.replies.handle(self._lane, replies)
        except BaseException as error:
            flags = events.FAILED
            if not self._ended(task, error):
                raise
        else:
            self._finish(task, packed, _time() - start)
        finally:
            context.running.reset(token)
            context.main_task = parent
            executor.meter.write(events.TASK, task.id, name_id, task.submit_s, start, _time(), flags)
            noted = context.running.get() or parent
            if noted is not None:
                ring.started(noted[0], parent_began, name_id)  # the same function

    def _ended(self, task: Task, error: BaseException) -> bool:
        """The child called sys.exit(), which ends the child; or its parent is cancelled or ends, and the child too."""
        own = type(error) is SystemExit and self.executor.exit_after is None
        with self.owner.lock:
            self._lane.inflight.pop(task.id, None)
            if own:
                text = f"{task.fn.name}() called sys.exit(); it ran in the process of the task that waited for it."
                self.owner.replies.fail_with(task, WorkerCrashedError(text, function_name=task.fn.name))
            else:
                self.owner.cancels.fail(task, "while it ran in the process of its parent")
        return own

    def _put(self, task: Task, packed: Packed) -> None:
        """A large result, or one that holds refs, is made by its owner, as a value given to put() is.

        Without the lock, for it may have to wait for room; if there is none, that is the child's error.
        """
        meta, buffers, inner = packed
        if buffers is not None or inner is not None:
            self.owner.objects.put_packed(task.id + RESULT_SUFFIX, meta, buffers, inner)

    def _finish(self, task: Task, packed: Packed, seconds: float) -> None:
        owner = self.owner
        meta, buffers, inner = packed
        if buffers is None and inner is None:
            with owner.lock:
                owner.replies.handle(self._lane, [(task.id, 0, meta, seconds)])
            return
        oid = task.id + RESULT_SUFFIX
        with owner.lock:
            self._lane.inflight.pop(task.id, None)
            is_wanted = oid not in owner.freed_early
            if buffers and is_wanted:
                task.lossy = {oid}  # a segment may be lost: then the task runs again in another process
            owner.replies.done(task)
            if is_wanted:
                owner.objects.announce(oid)
            else:
                owner.freed_early.discard(oid)
                owner.ops.append(oid)  # no process needs the result any more


def _call(function: Callable[..., object], payload: Any) -> object:
    """Call the user's function; in a function of its own, because a signal may raise in it
    (`owner/moments.py`).
    """
    return function(*payload) if type(payload) is tuple else function(*payload[0], **payload[1])
