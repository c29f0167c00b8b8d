"""The workers of a pool, and the functions that they know.

::

    user's thread ── function(func, way).remote(…) ──► queue of the crew ──► worker × processes
                  ◄────────────── ref ── get, wait ◄───────────────────────┘

Owns the crew (`sundog.owner.crews`): that module decides which worker runs which task, how many tasks wait at each
worker, and which tasks are taken back from a busy worker. Functions are pickled once and travel once to each worker.
Any thread may use it.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING

import sundog
from sundog.api import engine_or_init
from sundog.exceptions import ActorDiedError, TaskCancelledError, WorkerCrashedError
from sundog.options import TaskOptions, parse_task_options
from sundog.plain import replaced
from sundog.refs import ObjectRef
from sundog.remote_function import RemoteFunction
from sundog.serialize.pack import pack_function
from sundog.util.multiprocessing.calls import Calls, Initializer

if TYPE_CHECKING:
    from sundog.engines.local import LocalEngine
    from sundog.owner.crews import Crew

_FUNCTIONS_MAX = 64  # arbitrary: a program that creates a new function for each call uses each of them once
# Options of actors that a task does not have: programs written for a pool of actors may give them.
_OF_ACTORS = frozenset({"max_restarts", "max_concurrency", "max_pending_calls", "lifetime"})
_TERMINATED = "The Pool was terminated before this was done, so there is no result."


def pool_error(error: BaseException) -> BaseException:
    """The error of a chunk as users of a pool know it: a process of theirs died, or the pool was terminated."""
    if isinstance(error, TaskCancelledError):
        return ActorDiedError(_TERMINATED)
    if isinstance(error, WorkerCrashedError):
        return ActorDiedError(str(error), exit_code=error.exit_code, signal=error.signal)
    return error


class _CrewFunction(RemoteFunction[..., ObjectRef[object]]):
    """A remote function whose tasks only this crew runs."""

    def __init__(self, crew: Crew, calls: Calls, options: TaskOptions) -> None:
        super().__init__(calls, options)
        self._crew = crew

    def _bind(self) -> LocalEngine:
        engine = super()._bind()
        self._crew.employ(self._fn)
        return engine

    def remote_each(self, items: list[object]) -> list[ObjectRef[object]]:
        """Run a task for each item, which is its argument; the refs."""
        if self._engine is None:
            self._bind()
        if not self._fn.one:
            return [self.remote(item) for item in items]
        return self._crew.submit(self._fn, items)


class _ByArgument:
    """A function that travels with each call: it holds refs, or the workers count the chunks of all functions."""

    def __init__(self, run: _CrewFunction, func: Callable[..., object], way: str) -> None:
        self._run = run
        self._func = sundog.put(func)
        self._way = way

    def remote(self, *args: object, **kwargs: object) -> ObjectRef[object]:
        """Run as a task of the crew."""
        return self._run.remote(self._func, self._way, args, kwargs)

    def remote_each(self, items: list[object]) -> list[ObjectRef[object]]:
        """Run a task for each item, which is its argument; the refs."""
        return [self.remote(item) for item in items]


# The function itself, what it depends on, and how the crew calls it.
_Known = tuple[Callable[..., object], tuple[object, ...], _CrewFunction | _ByArgument]


class PoolCrew:
    """A fixed number of workers that share one queue.

    Raises:
        RayActorError: the initializer failed.
    """

    def __init__(
        self,
        size: int,
        initializer: Callable[..., object] | None,
        initargs: tuple[object, ...],
        chunks_per_life: int | None,
        remote_args: dict[str, object],
    ) -> None:
        self._options = _task_options(remote_args, chunks_per_life)
        self._counts = chunks_per_life is not None
        self._initializer: Initializer | None = None
        if initializer is not None:
            self._prepares = sundog.put((initializer, initargs))  # held: workers may be replaced
            self._initializer = (os.urandom(8), self._prepares.binary())
        engine = engine_or_init()
        self._crew = engine.crew(self._options, size, spoiled=initializer is not None)
        self._any = self._made(b"", "any", "Pool")
        self._lock = threading.Lock()
        self._by_blob: OrderedDict[tuple[bytes, str], _CrewFunction] = OrderedDict()
        self._by_function: OrderedDict[tuple[int, str], _Known] = OrderedDict()
        self._greet()

    def _greet(self) -> None:
        # An internal call: it does not count as a chunk of the user.
        options = replaced(self._options, name="Pool", max_calls=0)
        greet = _CrewFunction(self._crew, Calls(b"", "greet", self._initializer), options)
        try:
            sundog.get(self._crew.muster(greet.remote))
        except BaseException as error:
            self._crew.abort("its Pool could not be started")
            if isinstance(error, sundog.exceptions.RayTaskError):
                raise ActorDiedError.from_task_error(error) from None
            raise pool_error(error) from None
        self._crew.mustered()

    @property
    def size(self) -> int:
        """How many workers there are."""
        return self._crew.size

    # ------------------------------------------------------------------ functions
    def function(self, func: Callable[..., object], way: str) -> _CrewFunction | _ByArgument:
        """Something whose `.remote()` has a worker call `func` in this way (`calls.WAYS`)."""
        with self._lock:
            return self._function(func, way)

    def known(self, func: Callable[..., object], way: str) -> _CrewFunction | _ByArgument:
        """Like `function`, without pickling one again that has no state of its own: for a caller of a single call."""
        if type(func) is FunctionType and func.__closure__ is None:
            found = func.__globals__
            state: tuple[object, ...] = (
                func.__defaults__,
                func.__kwdefaults__,
                *[found.get(name) for name in func.__code__.co_names],
            )
        elif type(func) is BuiltinFunctionType:
            state = ()
        else:
            return self.function(func, way)
        key = (id(func), way)
        with self._lock:
            kept = self._by_function.get(key)
            if kept is not None and len(kept[1]) == len(state):
                if all(old is new for old, new in zip(kept[1], state, strict=True)):
                    return kept[2]
            made = self._function(func, way)
            self._by_function[key] = (func, state, made)  # kept, so that the id of the function stays its own
            if len(self._by_function) > _FUNCTIONS_MAX:
                self._by_function.popitem(last=False)
            return made

    def _function(self, func: Callable[..., object], way: str) -> _CrewFunction | _ByArgument:
        if self._counts:
            return _ByArgument(self._any, func, way)
        blob, captured = pack_function(func)
        if captured:
            return _ByArgument(self._any, func, way)
        key = (blob, way)
        made = self._by_blob.get(key)
        if made is None:
            made = self._by_blob[key] = self._made(
                blob, way, getattr(func, "__name__", "") or type(func).__name__
            )
            if len(self._by_blob) > _FUNCTIONS_MAX:
                self._by_blob.popitem(last=False)
        else:
            self._by_blob.move_to_end(key)
        return made

    def _made(self, blob: bytes, way: str, name: str) -> _CrewFunction:
        return _CrewFunction(self._crew, Calls(blob, way, self._initializer), self._options.merged(name=name))

    def ready(self, oids: list[bytes], timeout_s: float | None, *, in_order: bool) -> list[bytes]:
        """The results that are ready, once at least one is (in order: only those before the first that is not ready).
        Empty if the time is over before."""
        return self._crew.ready(oids, timeout_s, in_order=in_order)

    # ------------------------------------------------------------------ the end
    def close(self) -> None:
        """Let what was submitted finish; then the workers go back to the session."""
        self._crew.close()

    def join(self) -> None:
        """Wait until everything has ended and the workers are given back."""
        if sundog.is_initialized():
            self._crew.await_idle()
            self._crew.end()

    def terminate(self) -> None:
        """End what runs now; what has not finished never will."""
        if sundog.is_initialized():
            self._crew.abort("its Pool was terminated")

    def abandon(self) -> None:
        """No reference to the pool is left. Called by the garbage collector, at any moment: in a thread of its own."""
        threading.Thread(target=self.terminate, name="pool-end", daemon=True).start()


def _task_options(given: dict[str, object], chunks_per_life: int | None) -> TaskOptions:
    # A chunk runs at most once, as in the standard library, unless the user says otherwise.
    options: dict[str, object] = {"num_cpus": 0, "max_retries": given.get("max_task_retries") or 0}
    options |= {name: value for name, value in given.items() if name not in _OF_ACTORS}
    options.pop("max_task_retries", None)
    if chunks_per_life is not None:
        options["max_calls"] = chunks_per_life
    return parse_task_options(options)
