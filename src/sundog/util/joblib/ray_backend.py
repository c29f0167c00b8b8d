"""The joblib backend: joblib's batches run as tasks of the session.

```
 user's thread ── Parallel() ──► RayBackend.submit(batch) ──► task(batch, arrays…) ──► a worker of the session
                                        ▲                                                   │
 thread `joblib-results` ── callback ◄──┴────────────── future of the task ◄────────────────┘
```

Owns what is between joblib and the tasks: how many batches run at once, which arrays were stored already, and one
thread that tells joblib of results. joblib then reads the user's generator and submits the next batch, so this must
not be a thread of the runtime. Workers are those of the session: what they have imported stays for the next `Parallel`.
Batching, retrieval and generators are joblib's own.
"""

from __future__ import annotations

import io
import pickle
import queue
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

import cloudpickle
from joblib._parallel_backends import (
    AutoBatchingMixin,
    FallbackToBackend,
    ParallelBackendBase,
    SequentialBackend,
)

import sundog
from sundog import engines
from sundog.util.multiprocessing.results import RemoteTraceback

if TYPE_CHECKING:
    from sundog.plain import JsonObject
    from sundog.refs import ObjectRef

# Arrays from this size on are stored once for each Parallel: joblib's own threshold for its memory-mapped files.
SHARED_MIN_BYTES = 1 << 20
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
# Options of actors that tasks do not have: programs written for a backend of actors may give them.
_OF_ACTORS = frozenset(
    {"max_restarts", "max_task_retries", "max_concurrency", "max_pending_calls", "lifetime"}
)


class RayBackend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]  # joblib is untyped
    """Run joblib's jobs on the session's CPUs.

    Args:
        nesting_level: Given by joblib.
        inner_max_num_threads: How many threads the libraries of a job may use; by default one.
        ray_remote_args: Options of the tasks that run the jobs, such as `{"num_cpus": 2}`.
    """

    supports_retrieve_callback = True
    supports_inner_max_num_threads = True
    supports_sharedmem = False

    def __init__(
        self,
        nesting_level: int | None = None,
        inner_max_num_threads: int | None = None,
        ray_remote_args: dict[str, object] | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__(nesting_level=nesting_level, inner_max_num_threads=inner_max_num_threads, **kwargs)
        self.ray_remote_args = ray_remote_args
        self._jobs: _Jobs | None = None

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """How many jobs run at once: -1 means all CPUs of the session, -2 all but one, and so on."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is None:
            return 1
        if not sundog.is_initialized():
            sundog.init()
        cpus = int(sundog.cluster_resources().get("CPU", 1))
        if n_jobs < 0:
            return max(1, cpus + 1 + n_jobs)
        return min(n_jobs, cpus)

    def configure(
        self,
        n_jobs: int = 1,
        parallel: object = None,
        prefer: str | None = None,
        require: str | None = None,
        ray_remote_args: dict[str, object] | None = None,
        max_nbytes: int | str | None = SHARED_MIN_BYTES,
        **_unused: object,
    ) -> int:
        """Get ready for a `Parallel`. `ray_remote_args` wins over the one given to the constructor."""
        count = self.effective_n_jobs(n_jobs)
        if count == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        options = self._task_options(ray_remote_args or self.ray_remote_args or {})
        # If jobs take all CPUs, as many batches again are queued: a worker that ends a batch has the next
        # one.
        every = count >= int(sundog.cluster_resources().get("CPU", 1))
        self._jobs = _Jobs(2 * count if every else count, options, _size_bytes(max_nbytes))
        self.parallel = parallel
        return count

    def _task_options(self, given: JsonObject) -> JsonObject:
        # A batch runs at most once, as with joblib's other backends, unless the user says otherwise.
        options: JsonObject = {"name": "joblib", "max_retries": 0}
        options |= {name: value for name, value in given.items() if name not in _OF_ACTORS}
        if self.inner_max_num_threads is not None:
            threads = dict.fromkeys(self.MAX_NUM_THREADS_VARS, str(self.inner_max_num_threads))
            env = dict(options.get("runtime_env") or {})
            options["runtime_env"] = {**env, "env_vars": {**threads, **env.get("env_vars", {})}}
        return options

    def submit(self, func: object, callback: Callable[[object], None] | None = None) -> Future[object]:
        """Run a batch."""
        assert self._jobs is not None, "joblib calls configure() first"
        return self._jobs.submit(func, callback)

    # Before joblib 1.5 the same under another name.
    apply_async = submit

    def retrieve_result_callback(self, out: Future[object]) -> object:
        """The batch's results; raises what a job of it raised, caused by the traceback of the worker."""
        try:
            return out.result()
        except sundog.exceptions.RayTaskError as error:
            cause = error.cause
            if not isinstance(cause, Exception):
                raise
            raise cause from RemoteTraceback(str(error))

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """End what runs, and forget what waits."""
        if self._jobs is not None:
            self._jobs.abort()
        if not ensure_ready:
            self.terminate()

    def terminate(self) -> None:
        """Nothing more is submitted for this `Parallel`. The workers stay with the session."""
        jobs, self._jobs = self._jobs, None
        if jobs is not None:
            jobs.close()
        self.reset_batch_stats()


def _announce(batch: object) -> None:
    """The first workers of a driver are forked when what they will import is known: functions and arguments tell."""
    engine = engines.current()
    if engine is not None and engine.owner.tasks.announce is not None:
        engine.owner.tasks.announce(getattr(batch, "items", batch))


class _Jobs:
    """The batches of one `Parallel`. `submit` is called by the user's thread and by ours."""

    def __init__(self, most: int, options: JsonObject, shared_min_bytes: int | None) -> None:
        self._most = most
        self._task = sundog.remote(_run_batch).options(**options)
        self._arrays = _Arrays(shared_min_bytes)
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Future[object], object]] = deque()
        self._running: dict[Future[object], ObjectRef[object] | None] = {}
        self._ended: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, batch: object, callback: Callable[[object], None] | None) -> Future[object]:
        """Run a batch as soon as fewer than `most` are under way; `callback` gets its future, in our thread."""
        future: Future[object] = Future()
        if callback is not None:
            future.add_done_callback(callback)
        _announce(batch)
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="joblib-results", daemon=True)
                self._thread.start()
            self._waiting.append((future, batch))
        self._start_next()
        return future

    def _start_next(self) -> None:
        while True:
            with self._lock:
                if not self._waiting or len(self._running) >= self._most:
                    return
                future, batch = self._waiting.popleft()
                self._running[future] = None  # its slot is taken
            try:
                ref = self._start(batch)
            except Exception as error:
                self._ended.put(partial(self._finish, future, None, error))
                continue
            with self._lock:
                if future in self._running:
                    self._running[future] = ref
            ref.future().add_done_callback(partial(self._note, future))

    def _note(self, future: Future[object], done: Future[object]) -> None:
        """In a thread of the runtime: leave the result to our own."""
        self._ended.put(partial(self._finish, future, done, done.exception()))

    def _start(self, batch: object) -> ObjectRef[object]:
        blob, refs = self._arrays.pack(batch)
        return self._task.remote(blob, *refs)

    def _finish(
        self, future: Future[object], done: Future[object] | None, error: BaseException | None
    ) -> None:
        with self._lock:
            if self._running.pop(future, self) is self:
                return  # aborted
        self._start_next()
        if error is not None:
            future.set_exception(error)
        elif done is not None:
            future.set_result(done.result())

    def _serve(self) -> None:
        while (event := self._ended.get()) is not None:
            event()

    def abort(self) -> None:
        """End what runs and forget what waits: the results are not wanted."""
        with self._lock:
            refs = [ref for ref in self._running.values() if ref is not None]
            self._running.clear()
            self._waiting.clear()
        for ref in refs:
            if sundog.is_initialized():
                sundog.cancel(ref, force=True)

    def close(self) -> None:
        """End the thread, after what arrived already."""
        self._ended.put(None)
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()


class _Arrays:
    """Stores each large array of a `Parallel` once, and pickles batches with references in their places."""

    def __init__(self, min_bytes: int | None) -> None:
        self._min_bytes = min_bytes
        self._stored: dict[
            int, tuple[object, object]
        ] = {}  # by id: the array, so that the id stays its own, and its ref

    def pack(self, batch: object) -> tuple[bytes, list[object]]:
        """A batch as bytes, and the list of refs to its arrays, which the batch names by their places in the list."""
        stream = io.BytesIO()
        pickler = _BatchPickler(stream, self)
        pickler.dump(batch)
        return stream.getvalue(), pickler.refs

    def ref_of(self, array: Any) -> object:
        """The ref of an array; None if it is too small to be stored."""
        if self._min_bytes is None or array.nbytes < self._min_bytes or array.dtype.hasobject:
            return None
        found = self._stored.get(id(array))
        if found is None:
            found = self._stored[id(array)] = (array, sundog.put(array))
        return found[1]


class _BatchPickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle is untyped
    def __init__(self, stream: io.BytesIO, arrays: _Arrays) -> None:
        super().__init__(stream, protocol=5)
        self.refs: list[object] = []
        self._arrays = arrays
        self._places: dict[int, int] = {}
        self._kind = _array_type()

    def persistent_id(self, value: object) -> int | None:
        """The place of a large array among the refs; None for everything else."""
        if self._kind is None or type(value) is not self._kind:
            return None
        place = self._places.get(id(value))
        if place is None:
            ref = self._arrays.ref_of(value)
            if ref is None:
                return None
            place = self._places[id(value)] = len(self.refs)
            self.refs.append(ref)
        return place


class _Unpickler(pickle.Unpickler):
    def __init__(self, blob: bytes, arrays: tuple[object, ...]) -> None:
        super().__init__(io.BytesIO(blob))
        self._arrays = arrays

    def persistent_load(self, place: int) -> object:
        """The array at a place among the task's arguments."""
        return self._arrays[place]


def _run_batch(blob: bytes, *arrays: object) -> object:
    """In a worker: run a batch of joblib's."""
    return _Unpickler(blob, arrays).load()()


def _array_type() -> object:
    """NumPy's array, if this program has loaded NumPy; otherwise it has no arrays."""
    import sys

    module = sys.modules.get("numpy")
    return getattr(module, "ndarray", None)


def _size_bytes(given: int | str | None) -> int | None:
    """joblib's `max_nbytes`: a number, a text such as "1M", or None for never.

    >>> _size_bytes("1M")
    1048576
    """
    if isinstance(given, str):
        return int(float(given[:-1]) * _UNITS[given[-1].upper()]) if given[-1].isalpha() else int(given)
    return given
