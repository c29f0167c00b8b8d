"""The verbs of the public API on a Ray cluster.

Users hold Ray's own refs, handles, generators and groups. Remote functions and actor classes of sundog, which exist
before the engine is known, are bound to Ray's on first use, and when they are pickled: one export for all
copies. Owns this binding. Runs in drivers and workers, on any thread.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn, ParamSpec, TypeVar

from sundog import events
from sundog.actor import ActorClass
from sundog.exceptions import RayError
from sundog.ray_engine import process, shim, wishes
from sundog.ray_engine.waiting import Waits, check_get, check_wait, late

if TYPE_CHECKING:
    from types import ModuleType

    from sundog.actor import ActorHandle
    from sundog.engines.foreign import Native, Waitable
    from sundog.options import ActorOptions, TaskOptions
    from sundog.plain import JsonObject
    from sundog.ray_engine import theirs
    from sundog.ray_engine.gathering import Gathering
    from sundog.ray_engine.runs import Own
    from sundog.refs import ObjectRef
    from sundog.remote_function import RemoteFunction

_time = time.time
P = ParamSpec("P")
T = TypeVar("T")
Made = TypeVar("Made")
Target = TypeVar("Target")
F = TypeVar("F", bound=Callable[..., object])


class RayEngine:
    """One process's view of a Ray cluster."""

    name = "ray"

    def __init__(self, ray: ModuleType, *, is_driver: bool, gathering: Gathering | None = None) -> None:
        self.ray = ray
        self.is_driver = is_driver
        self.gathering = gathering
        self._lock = threading.Lock()
        self.waits = Waits()
        self.is_left = False

    @property
    def folder(self) -> str:
        """Where its session's records are; empty if this process cannot read them."""
        return self.gathering.path if self.gathering is not None else ""

    # ------------------------------------------------------------------ the session
    def is_initialized(self) -> bool:
        """Whether the cluster is connected."""
        return bool(self.ray.is_initialized())

    def shutdown(self) -> None:
        """Bring the last records home, and leave the cluster."""
        from sundog.ray_engine import joining

        joining.leave(self)

    def flush(self) -> None:
        """Bring what is recorded so far into the session's folder."""
        if self.gathering is not None:
            self.gathering.flush()

    def describe(self) -> dict[str, object]:
        """What `init()` returns."""
        context = self.ray.get_runtime_context()
        folder = self.folder
        found = {"address": context.gcs_address, "gcs_address": context.gcs_address}
        if self.ray.util.client.ray.is_connected():
            return {**found, "session_name": None, "session_dir": None, "webui_url": None}
        return {
            **found,
            "node_id": context.get_node_id(),
            "job_id": context.get_job_id(),
            "namespace": context.namespace,
            "session_name": folder.rpartition("/")[2] or None,
            "session_dir": folder or None,
            "node_ip_address": self.ray.util.get_node_ip_address(),
            "webui_url": import_module("ray._private.worker").get_dashboard_url(),
        }

    def nodes(self) -> list[JsonObject]:
        """As Ray's."""
        return list(self.ray.nodes())

    def cluster_resources(self) -> dict[str, float]:
        """As Ray's."""
        return dict(self.ray.cluster_resources())

    def available_resources(self) -> dict[str, float]:
        """As Ray's."""
        return dict(self.ray.available_resources())

    def gpu_ids(self) -> list[int] | list[str]:
        """As Ray's."""
        return list(self.ray.get_gpu_ids())

    def runtime_context(self) -> object:
        """Ray's, with what only sundog's has."""
        return Context(self.ray.get_runtime_context())

    # ------------------------------------------------------------------ functions and classes
    def submit(
        self, front: RemoteFunction[..., object], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        """`f.remote()`."""
        engine, bound = front._elsewhere
        if engine is not self or bound is None:
            bound = self._bound(front._native, front._function, shim.task, front._options, front._options)
            front._elsewhere = (self, bound)
        signature = front._signature
        if kwargs or not signature.low <= len(args) <= signature.high:
            signature.check(front._name, args, kwargs)
        return bound.remote(*args, **kwargs)

    def create(
        self, front: ActorClass[T], options: ActorOptions, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> ActorHandle[T]:
        """`A.remote()`."""
        options.check_creation()
        submit_s = _time()
        bound = self._bound(front._native, front._cls, shim.actor_class, front._options, options)
        handle = bound.remote(*args, **kwargs)
        if process.me is not None:
            process.me.created(handle, f"{front._name}.__init__", submit_s)
        return handle

    def bind(self, front: RemoteFunction[..., object] | ActorClass[T]) -> None:
        """A function or class is about to be pickled."""
        if isinstance(front, ActorClass):
            self._native(front._native, front._cls, shim.actor_class, front._options, front._options)
        else:
            self._native(front._native, front._function, shim.task, front._options, front._options)

    def _bound(
        self,
        made: dict[object, Native[Made]],
        target: Target,
        around: Callable[[Target, Own], object],
        base: TaskOptions | ActorOptions,
        options: TaskOptions | ActorOptions,
    ) -> Native[Made]:
        """Ray's own of a function or class, with these options."""
        given = wishes.rays_options(options)
        for name in wishes.AT_THE_DECORATOR:
            given.pop(name, None)
        native = self._native(made, target, around, base, options)
        return native.options(**given) if given else native

    def _native(
        self,
        made: dict[object, Native[Made]],
        target: Target,
        around: Callable[[Target, Own], object],
        base: TaskOptions | ActorOptions,
        options: TaskOptions | ActorOptions,
    ) -> Native[Made]:
        """Ray's own, made once for all `.options()` that the shim does not see: so it is exported once."""
        own = wishes.shims(options)
        found = made.get(own)
        if found is None:
            with self._lock:
                found = made.get(own)
                if found is None:
                    asked = wishes.rays_options(base)
                    given = {name: asked[name] for name in wishes.AT_THE_DECORATOR if name in asked}
                    shimmed = around(target, own)
                    remote = native(self.ray.remote)
                    found = made[own] = remote(**given)(shimmed) if given else remote(shimmed)
        return found

    # ------------------------------------------------------------------ objects
    def get(self, refs: object, timeout: float | None) -> object:
        """As `ray.get`."""
        try:
            return noted(events.GET, refs, self.waiting(native(self.ray.get)), refs, timeout=timeout)
        except TimeoutError as error:
            if type(error) is not self.ray.exceptions.GetTimeoutError:  # an error of a task
                raise
            raise late(self.ray, refs, timeout, error) from None
        except (TypeError, ValueError) as error:
            if not isinstance(error, RayError):
                check_get(refs)
            raise

    def put(self, value: T) -> ObjectRef[T]:
        """As `ray.put`."""
        ref: ObjectRef[T] = noted(events.PUT, None, native(self.ray.put), value)
        return ref

    def wait(
        self, refs: list[Waitable], num_returns: int, timeout: float | None, fetch_local: bool
    ) -> tuple[list[Waitable], list[Waitable]]:
        """As `ray.wait`."""
        check_wait(refs, num_returns)
        ready: list[Waitable]
        ready, rest = noted(
            events.WAIT,
            refs,
            self.waiting(native(self.ray.wait)),
            refs,
            num_returns=num_returns,
            timeout=timeout,
            fetch_local=fetch_local,
        )
        return ready, rest

    def waiting(self, verb: Callable[..., T]) -> Callable[..., T]:
        """A verb of Ray's that may wait, for a process whose other threads may shut down meanwhile."""
        return functools.partial(self.waits.run, verb) if self.is_driver else verb

    def free(self, refs: list[ObjectRef[object]], local_only: bool) -> None:
        """As Ray's."""
        import_module("ray._private.internal_api").free(refs, local_only=local_only)

    def cancel(self, ref: object, *, force: bool, recursive: bool) -> None:
        """As `ray.cancel`."""
        self.ray.cancel(ref, force=force, recursive=recursive)

    # ------------------------------------------------------------------ actors
    def kill(self, actor: object, *, no_restart: bool) -> None:
        """As `ray.kill`."""
        self.ray.kill(actor, no_restart=no_restart)

    def get_actor(self, name: str, namespace: str | None) -> ActorHandle[object]:
        """As `ray.get_actor`, with the names that there are."""
        try:
            found: ActorHandle[object] = self.ray.get_actor(name, namespace)
            return found
        except ValueError:
            names = [] if namespace is not None else sorted(map(str, self.named_actors(False)))
            raise ValueError(
                f"There is no live actor named {name!r} in this namespace of the Ray cluster. Names: {names}."
            ) from None

    def named_actors(self, all_namespaces: bool) -> list[str] | list[dict[str, str]]:
        """As Ray's; sundog's own are left out."""
        found = self.ray.util.list_named_actors(all_namespaces=all_namespaces)
        return [each for each in found if not all_namespaces or each["namespace"] != "_sundog"]

    def exit_actor(self) -> NoReturn:
        """As Ray's."""
        if not self.ray.get_runtime_context().get_actor_id():
            raise TypeError(
                "exit_actor() ends the actor that calls it, and this code does not run in an actor."
            )
        self.ray.actor.exit_actor()
        raise SystemExit(0)

    # ------------------------------------------------------------------ ends and facts
    def key_values(self, verb: str, *args: object, **kwargs: object) -> object:
        """A function of `ray.experimental.internal_kv`."""
        table = import_module("ray.experimental.internal_kv")
        return getattr(table, f"_internal_kv_{verb}")(*args, **kwargs)

    def placement(self, verb: str, *args: object, **kwargs: object) -> object:
        """A function of `ray.util.placement_group`."""
        return getattr(import_module("ray.util.placement_group"), verb)(*args, **kwargs)

    def state(self, verb: str, **kwargs: object) -> object:
        """A function of `ray.util.state`."""
        return getattr(import_module("ray.util.state"), verb)(**kwargs)


def native(verb: F) -> F:
    """A verb of Ray's itself, where `sundog run --engine ray` has put one of ours around it: one record is enough."""
    return getattr(verb, "__sundog_native__", verb)


def noted(kind: int, refs: object, verb: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a verb of Ray's, and note how long it took and for what."""
    me, start_s, failed = process.me, _time(), True
    found = None
    try:
        found = verb(*args, **kwargs)
        failed = False
        return found
    finally:
        if me is not None:
            me.span(kind, found if kind == events.PUT else refs, start_s, _time(), failed)


class Context:
    """Ray's runtime context, and what only sundog's has."""

    def __init__(self, theirs: theirs.RaysContext) -> None:
        self._theirs = theirs

    def __getattr__(self, name: str) -> object:
        return getattr(self._theirs, name)

    def get_attempt_number(self) -> int:
        """How often this task was tried before."""
        return int(self._theirs.worker.core_worker.get_current_task_attempt_number())

    def is_cancelled(self) -> bool:
        """Whether the running task was asked to stop."""
        return bool(self._theirs.is_canceled())
