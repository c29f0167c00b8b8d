"""The public verbs: init, shutdown, remote, get, put, wait, cancel, kill, get_actor and their kin.

Owns the checks of what users pass and the words of what they get back; the work is done by the engine
of this process. Any thread, driver or worker.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar, overload

from sundog import config as config_module
from sundog import engines, init_context, init_options, isolation, notices, refs
from sundog.actor import ActorHandle
from sundog.decorator import remote as remote  # one of the verbs
from sundog.engines import capacity, local, sessions
from sundog.engines.local import LocalEngine
from sundog.exceptions import ActorHandleNotFoundError, RayError, RaySystemError
from sundog.generator import ObjectRefGenerator
from sundog.ids import PROCESS_BYTES, task_of
from sundog.init_context import InitContext
from sundog.job_spec import JobSpec
from sundog.net.spare import imported
from sundog.owner import context
from sundog.refs import ObjectRef
from sundog.serialize.pack import unpack
from sundog.wire.control import ActorKill, ToNode
from sundog.wire.peers import CancelOwned
from sundog.wire.requests import ActorInfo, GetActor, Request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sundog.engines.heads import Head
    from sundog.job_config import JobConfig
    from sundog.logging_config import LoggingConfig
    from sundog.plain import JsonObject
    from sundog.runtime_env import RuntimeEnv

__tracebackhide__ = True  # pytest folds the frames of this file

A = TypeVar("A")
T = TypeVar("T")
Waitable = TypeVar("Waitable", bound=ObjectRef[object] | ObjectRefGenerator[object])

_init_lock = threading.RLock()

_forked_from: int | None = None


def init(
    address: str | None = None,
    *,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    resources: dict[str, float] | None = None,
    labels: dict[str, str] | None = None,
    object_store_memory: int | None = None,
    local_mode: bool = False,
    ignore_reinit_error: bool = False,
    include_dashboard: bool | None = None,
    dashboard_host: str = "127.0.0.1",
    dashboard_port: int | None = None,
    job_config: JobConfig | JsonObject | None = None,
    configure_logging: bool = True,
    logging_level: int | str = "info",
    logging_format: str | None = None,
    logging_config: LoggingConfig | None = None,
    log_to_driver: bool | None = None,
    namespace: str | None = None,
    runtime_env: JsonObject | RuntimeEnv | None = None,
    enable_resource_isolation: bool = False,
    storage: str | None = None,
    object_spilling_directory: str | None = None,
    cgroup_path: str | None = None,
    system_reserved_cpu: float | None = None,
    system_reserved_memory: int | None = None,
    proxy_server_url: str | None = None,
    engine: str | None = None,
    _memory: int | None = None,
    _object_spilling_directory: str | None = None,
    _temp_dir: str | None = None,
    _tracing_startup_hook: str | None = None,
    _system_config: Mapping[str, object] | None = None,
    **other: object,
) -> InitContext:
    """Start a session on this machine, or join one.

    Args:
        address: "auto", a session's name or its folder joins it; "local" starts one. None joins the one that
            SUNDOG_ADDRESS or RAY_ADDRESS names, else the one that `sundog start` has started on this machine, and
            starts one if there is none. "ray://HOST:PORT" is a Ray cluster.
        engine: "local", or "ray" for a Ray cluster at `address` (docs/engines.md); by default as SUNDOG_ENGINE says.
        num_cpus, num_gpus, resources, object_store_memory: logical resources of the new session.
        object_spilling_directory: folder, or URL for fsspec, for objects that do not fit in the object store.
        logging_level, logging_format: which of sundog's own messages are shown in this program and its workers, and
            how; with `configure_logging=False` they go through the logger "sundog" as the program has set it up.
        logging_config: a `LoggingConfig`: how this program and its workers write what they log.
        include_dashboard, dashboard_host, dashboard_port: whether the new session has a head process (dashboard, jobs),
            and where it listens. It needs `pip install 'sundog[default]'`.
        _tracing_startup_hook: "module:function" that sets up OpenTelemetry in each process of the new session.
        namespace: where names of actors live; an anonymous one by default.
        runtime_env: environment of the workers of this program.
        ignore_reinit_error: make a second call harmless.

    Raises:
        RuntimeError: called a second time without `ignore_reinit_error`.
        ConnectionError: there is no session at `address`.
        RuntimeError: that session runs on another Python or another sundog than this program.
        ValueError: an option is wrong.

    >>> import sundog
    >>> with sundog.init(num_cpus=1):
    ...     sundog.get(sundog.put(7))
    7
    """
    asked = dict(locals())
    with _init_lock, init_options.SessionStart(_system_config):
        if engines.foreign is not None or engines.chosen(engine, address) != engines.LOCAL:
            return InitContext(engines.init_elsewhere(asked))
        before = engines.current()
        if before is not None and before.is_driver and before.owner.closed is not None:
            # the node of the earlier session is gone: remove what is left of the session here
            before.shutdown()
        if engines.current() is not None:
            if ignore_reinit_error or context.facts.mode == "worker":
                return _describe_session()
            raise RuntimeError(
                "sundog.init() was called twice: this program is in session "
                f"{context.facts.session.get('name')} already. Call sundog.shutdown() first, or pass "
                "ignore_reinit_error=True."
            )
        if local_mode:
            raise RuntimeError("local_mode has been removed: call the plain function, f._function(...).")
        given = init_options.job_config_of(job_config)
        namespace = namespace if namespace is not None else given.ray_namespace
        runtime_env = runtime_env or given.runtime_env or None
        logging_config = logging_config if logging_config is not None else given.py_logging_config
        init_options.check(
            init, other, runtime_env, namespace, num_cpus, num_gpus, resources, labels, object_store_memory
        )
        level = notices.level_of(logging_level, "logging_level")
        init_options.check_logging(logging_format, logging_config)
        system: dict[str, object] = dict(_system_config or {})
        if _temp_dir:
            if not os.path.isabs(_temp_dir):
                raise ValueError(f"_temp_dir must be an absolute path, not {_temp_dir!r}.")
            system["temp_dir"] = _temp_dir
        if object_spilling_directory or _object_spilling_directory:
            system["object_spilling_directory"] = object_spilling_directory or _object_spilling_directory
        if _tracing_startup_hook:
            system["tracing_startup_hook"] = _tracing_startup_hook
        if other.get("_metrics_export_port"):
            system["metrics_export_port"] = other["_metrics_export_port"]
        config = local.load_config(system)
        logs = config.log_to_driver if log_to_driver is None else log_to_driver
        notices.configure(level=level, form=logging_format, ours=configure_logging)
        init_options.say_what_is_ignored(config_module.without_effect, other, system)
        init_options.warn_of_mistyped(config_module.mistyped())
        job = _job(namespace or config.namespace, given, logging_config)
        job.weight, job.cpus = config.job_weight, config.job_cpus
        job.memory, job.object_store = config.job_memory, config.job_object_store
        wanted = init_options.session_to_join(address, config)
        head: Head | None = None
        if wanted is None or wanted == "local":
            if _memory is not None:
                resources = {**(resources or {}), "memory": _memory}
            totals = capacity.node_resources(num_cpus, num_gpus, resources, object_store_memory, config)
            first_port = config.dashboard_port
            with init_options.head_of(include_dashboard, dashboard_host, dashboard_port, first_port) as head:
                started = local.start(config, totals, labels or {}, job, log_to_driver=logs, head=head)
            said = init_context.started_text(context.facts.session["name"], totals)
        else:
            init_options.refuse_for_joined(
                wanted,
                address,
                num_cpus=num_cpus,
                num_gpus=num_gpus,
                resources=resources,
                labels=labels,
                object_store_memory=object_store_memory,
            )
            runtime_env = init_options.take_part(job, wanted, runtime_env)
            started = local.join(sessions.resolve(wanted, config.temp_dir), config, job, log_to_driver=logs)
            said = init_context.joined_text(context.facts.session["name"])
        engines.plug(started)
        if started.owner.config.tracing_startup_hook:
            init_options.begin_tracing(started, shutdown)
        if logging_config is not None:
            from sundog import logging_config as settings

            settings.apply(logging_config.to_dict())
        if runtime_env:
            _adopt_runtime_env(started, runtime_env)
        notices.note(said + (f" Dashboard: {head.info.page}" if head is not None else ""))
        described = _describe_session()
        started.joined_s = time.time()
        return described


def _adopt_runtime_env(engine: LocalEngine, runtime_env: JsonObject) -> None:
    """Make the job's runtime environment the one that tasks get by default."""
    from sundog import runtime_env as environments

    try:
        checked = environments.RuntimeEnv(**runtime_env)
        context.facts.runtime_env = dict(checked)
        engine.env_key({})
    except BaseException:
        shutdown()
        raise


def _job(namespace: str, given: JobConfig, logging_config: LoggingConfig | None) -> JobSpec:
    interpreter = isolation.describe_interpreter()
    interpreter.sys_path[:0] = [*given.code_search_path, *given._py_driver_sys_path]
    return JobSpec(
        interpreter,
        isolation.working_folder(),
        namespace=namespace,
        compat=_compat_installed(),
        detached=given.default_actor_lifetime == "detached",
        notices=notices.settings(),
        logging=logging_config.to_dict() if logging_config is not None else None,
    )


def _compat_installed() -> bool:
    module = sys.modules.get("sundog.compat")
    return bool(module is not None and module.installed())


def _describe_session() -> InitContext:
    session = context.facts.session
    return InitContext(
        node_ip_address="127.0.0.1",
        metrics_export_port=None,  # requested when it is read
        # these four: processes and ports of Ray that a sundog session does not have
        dashboard_agent_listen_port=None,
        object_store_address=None,
        raylet_socket_name=None,
        redis_address=None,
        session_name=session.get("name"),
        session_dir=session.get("path"),
        address=session.get("path"),
        gcs_address=session.get("path"),
        node_id=context.facts.node_id.hex(),
        namespace=context.facts.namespace,
        job_id=context.facts.job_id.hex(),
        webui_url=session.get("webui_url"),
    )


def shutdown(*, wait_for_processes: bool = False, _exiting_interpreter: bool = False) -> None:
    """Leave the session; it ends with its last driver. Harmless when there is none.

    Args:
        wait_for_processes: accepted for Ray's sake: processes of a session that ends are always waited for.
    """
    with _init_lock:
        engine = engines.current() or engines.foreign
        if engine is None:
            return
        if not engine.is_driver:
            raise RuntimeError(
                "Only a driver can call shutdown(): a task or actor cannot end the session it runs in."
            )
        engines.leave()
        engine.shutdown()


def is_initialized() -> bool:
    """Whether this process is in a session."""
    engine = engines.current()
    if engine is None and (other := engines.elsewhere()) is not None:
        return other.is_initialized()
    return engine is not None and engine.owner.closed is None


def engine_or_init() -> LocalEngine:
    """The engine of this process; calls `init()` if there is none.

    Raises:
        RuntimeError: in a process that user code forked from a driver or worker, or that is on another engine.
        RaySystemError: there is none, and `enable_auto_connect` is off.
    """
    engine = engines.current()
    if engine is not None:
        return engine
    engines.refuse_elsewhere()
    if _forked_from is not None:
        raise RuntimeError(
            f"This process was forked from process {_forked_from}, which runs sundog; a fork cannot share its sockets. "
            "Use tasks or actors for parallel work, or start processes with the 'spawn' method and call init() there."
        )
    with _init_lock:
        engine = engines.current()
        if engine is None:
            if not config_module.load().enable_auto_connect:
                raise RaySystemError(
                    "sundog is not running in this process, and enable_auto_connect=0 keeps it from starting by "
                    "itself. Call sundog.init() first."
                )
            init()
            engine = engines.current()
        assert engine is not None
        return engine


def _live() -> LocalEngine:
    engine = engines.current()
    if engine is None:
        return engine_or_init()
    return engine


def _after_fork_in_child() -> None:
    global _forked_from
    if (engine := engines.current()) is not None and context.facts.process_id:
        _forked_from = os.getppid()
        engine.let_go()
        engines.plug(None)
        refs.plug(None)


os.register_at_fork(after_in_child=_after_fork_in_child)


# ---------------------------------------------------------------------- objects
def put(
    value: T, *, _owner: ActorHandle[object] | None = None, _tensor_transport: object = None
) -> ObjectRef[T]:
    """Store a value; returns a ref to it. Large buffers go to shared memory and are read without a copy.

    Raises:
        TypeError: the value is a ref already, or cannot be pickled.
    """
    engine = engines.current()
    if engine is None:
        if (other := engines.elsewhere(start=True)) is not None:
            return other.put(value)
        engine = engine_or_init()
    if _owner is not None and not isinstance(_owner, ActorHandle):
        raise TypeError(f"_owner of put() must be an actor's handle, not {type(_owner).__name__}.")
    if type(value) is ObjectRef:
        raise TypeError(
            "put() does not take an ObjectRef: a ref names an object already. Pass the ref itself."
        )
    owner = engine.owner
    if owner.closed is not None:
        owner.check_open()
    caller = sys._getframe(1)
    return ObjectRef(owner.objects.put(value), caller.f_code, caller.f_lasti)


@overload
def get(object_refs: ObjectRef[T], *, timeout: float | None = None, _use_object_store: bool = False) -> T: ...
@overload
def get(
    object_refs: list[ObjectRef[T]], *, timeout: float | None = None, _use_object_store: bool = False
) -> list[T]: ...
@overload
def get(
    object_refs: ObjectRefGenerator[T], *, timeout: float | None = None, _use_object_store: bool = False
) -> ObjectRefGenerator[T]: ...
def get(object_refs: object, *, timeout: float | None = None, _use_object_store: bool = False) -> object:
    """The value of a ref, or the values of a list of refs; waits until they are there.

    Args:
        object_refs: one ref or a list of them.
        timeout: seconds; 0 returns at once or raises, None waits as long as it takes.

    Raises:
        GetTimeoutError: not there in time.
        RayTaskError: the task raised; it is also an instance of the exception's own class.
        ValueError: `object_refs` is neither.
        TypeError: an element of the list is no ref.
    """
    engine = engines.current()
    if engine is None:
        if (other := engines.elsewhere()) is not None:
            return other.get(object_refs, timeout)
        engine = _engine_for(object_refs)
    if timeout is not None and timeout < 0:
        timeout = None  # as in Ray
    __tracebackhide__ = True  # read by IPython and pytest
    if type(object_refs) is ObjectRef:
        try:
            return engine.owner.getting.get_one(object_refs._id, timeout)
        except RayError as error:
            error.__traceback__ = None  # begins with the user's frames, wherever it is shown
            raise
    if isinstance(object_refs, list):
        oids = [ref._id for ref in object_refs if type(ref) is ObjectRef]
        if len(oids) != len(object_refs):
            position, other = next(pair for pair in enumerate(object_refs) if type(pair[1]) is not ObjectRef)
            raise TypeError(
                f"get() takes a ref or a list of refs, but element {position} of the list is {_kind_of(other)}."
            )
        try:
            return engine.owner.getting.get_many(oids, timeout)
        except RayError as error:
            error.__traceback__ = None
            raise
    if isinstance(object_refs, ObjectRefGenerator):
        return object_refs
    raise ValueError(f"get() takes a ref or a list of refs, not {_kind_of(object_refs)}.")


def _kind_of(value: object) -> str:
    kind = type(value).__name__
    if isinstance(value, ActorHandle):
        return f"{kind}: call one of its methods with .remote() and get the ref that it returns"
    if isinstance(value, dict):
        return "dict: get its values, get(list(d.values()))"
    return kind


def _engine_for(object_refs: object) -> LocalEngine:
    """The engine for a `get` without a session: what is no ref is an error of its own."""
    if not isinstance(object_refs, (ObjectRef, list, ObjectRefGenerator)):
        raise ValueError(f"get() takes a ref or a list of refs, not {_kind_of(object_refs)}.")
    return engine_of_session()


def engine_of_session() -> LocalEngine:
    """The engine of this process, for verbs that need what a session holds: it starts none.

    Raises:
        RaySystemError: there is none.
    """
    engine = engines.current()
    if engine is not None:
        return engine
    engines.refuse_elsewhere()
    if _forked_from is not None:
        return engine_or_init()
    raise RaySystemError(
        "sundog is not running in this process, so there is nothing to get, wait for or call. Call sundog.init(); "
        "refs and actors of an earlier session ended with it."
    )


def wait(
    ray_waitables: list[Waitable],
    *,
    num_returns: int = 1,
    timeout: float | None = None,
    fetch_local: bool = True,
) -> tuple[list[Waitable], list[Waitable]]:
    """Wait until `num_returns` of the refs are ready; returns the ready refs and the other refs, both in order.

    Args:
        fetch_local: In a session of several nodes: whether an object is ready only once this node has a copy of it.

    Raises:
        TypeError: not a list of refs or generators.
        ValueError: duplicates, or `num_returns` out of range.
    """
    refs = ray_waitables
    if isinstance(refs, (ObjectRef, ObjectRefGenerator)):
        raise TypeError(f"wait() takes a list of refs; put the {type(refs).__name__} into a list.")
    if not isinstance(refs, list):
        raise TypeError(f"wait() takes a list of refs, not {type(refs).__name__}.")
    if timeout is not None and timeout < 0:
        raise ValueError(f"timeout must not be negative, but is {timeout}.")
    if not refs:
        return [], []
    engine = engines.current()
    if engine is None:
        if (other := engines.elsewhere()) is not None:
            return other.wait(refs, num_returns, timeout, fetch_local)
        engine = engine_of_session()
    plain = True
    for ref in refs:
        if type(ref) is not ObjectRef:
            if not isinstance(ref, ObjectRefGenerator):
                raise TypeError(f"wait() takes refs, but the list has {_kind_of(ref)}.")
            plain = False
    # The ids of refs are hashed without a call into Python.
    if len(refs) > 1 and len({ref._id for ref in refs} if plain else set(refs)) != len(refs):  # type: ignore[union-attr]
        raise ValueError("wait() takes each ref once, but the list has duplicates.")
    if num_returns <= 0 or num_returns > len(refs):
        raise ValueError(f"num_returns must be from 1 to {len(refs)} (the number of refs): {num_returns}.")
    if not plain:
        imported("sundog.waiting")
        from sundog.waiting import wait_mixed

        return wait_mixed(engine, list(refs), num_returns, timeout)
    oids: list[bytes] = [ref._id for ref in refs]  # type: ignore[union-attr]  # the loop above has seen each
    if fetch_local and engine.owner.segments.several:
        from sundog.owner.fetching import wait_local

        ready = wait_local(engine.owner, oids, num_returns, timeout)
    else:
        ready = engine.owner.getting.wait(oids, num_returns, timeout)
    if len(ready) == 1:
        return [refs[at := oids.index(ready[0])]], refs[:at] + refs[at + 1 :]
    imported("sundog.waiting")
    from sundog.waiting import split

    return split(refs, oids, set(ready))


def cancel(
    ray_waitable: ObjectRef[object] | ObjectRefGenerator[object],
    *,
    force: bool = False,
    recursive: bool = True,
) -> None:
    """Cancel a task or call: one that waits never runs, one that runs is interrupted (`force` kills its process).

    Raises:
        TypeError: not a ref.
        ValueError: `force` on an actor's call.
    """
    if (other := engines.foreign) is not None:
        return other.cancel(ray_waitable, force=force, recursive=recursive)
    if isinstance(ray_waitable, ObjectRefGenerator):
        task_id = ray_waitable._task_id
    elif type(ray_waitable) is ObjectRef:
        task_id = task_of(ray_waitable._id)
    else:
        raise TypeError(f"cancel() takes a ref, not {_kind_of(ray_waitable)}.")
    engine = engines.current() or engine_of_session()
    owner = engine.owner
    if task_id[:PROCESS_BYTES] != owner.me:
        with owner.lock:
            owner.peers.send(task_id[:PROCESS_BYTES], CancelOwned(task_id, force, recursive))
        return
    with owner.lock:
        owner.check_open()
        task = owner.table.get(task_id)
        if task is None:
            owner.lineage.cancelled(task_id)
            return
        made = owner.cancels.begin(task, force=force, recursive=recursive)
    owner.cancels.await_told(made)


def kill(actor: ActorHandle[object], *, no_restart: bool = True) -> None:
    """End an actor at once; with `no_restart=False` it may come back.

    Raises:
        ValueError: not an actor handle.
        ActorHandleNotFoundError: a handle of another session.
    """
    if not isinstance(actor, ActorHandle):
        raise ValueError(
            f"kill() takes an actor handle, not {_kind_of(actor)}. To stop a task use cancel(ref)."
        )
    if (other := engines.foreign) is not None:
        return other.kill(actor, no_restart=no_restart)
    engine = engines.current() or engine_of_session()
    core = actor._core
    engine.owner.control.send(ActorKill(core.actor_id, no_restart))
    # Calls made after kill() fail, even if the node's message has not arrived yet.
    if engine.owner.control.request(ActorInfo(core.actor_id)) is None:
        raise ActorHandleNotFoundError(
            f"This session has no actor {core.actor_id.hex()} to kill: a handle ends with the session that made it. "
            "Create the actor again, or find one that runs with sundog.get_actor(name).",
            actor_id=core.actor_id.hex(),
        )


def get_actor(name: str, namespace: str | None = None) -> ActorHandle[Any]:
    """A handle to a named actor. It does not keep the actor alive.

    Raises:
        ValueError: there is no live actor of that name.
        TypeError: the name or the namespace is no string.
    """
    if not name:
        raise ValueError(f"get_actor() needs the actor's name, a non-empty string, not {name!r}.")
    if not isinstance(name, str) or not isinstance(namespace, str | None):
        raise TypeError(f"get_actor() takes strings, not name={name!r} and namespace={namespace!r}.")
    if namespace is not None and not namespace:
        raise ValueError('namespace must not be "": leave it out to use the current namespace.')
    if engines.current() is None and (other := engines.elsewhere(start=True)) is not None:
        return other.get_actor(name, namespace)
    engine = _live()
    actor_id, packed = engine.owner.control.request(GetActor(name, namespace or context.facts.namespace))
    return ActorHandle(actor_id, unpack(packed, None), None)


# ---------------------------------------------------------------------- the session
def control(question: Request[A]) -> A:
    """The answer of this session's node to a request."""
    return _live().owner.control.request(question)


def tell(message: ToNode) -> None:
    """Send a message to the node of this session that has no answer."""
    owner = _live().owner
    with owner.lock:
        owner.check_open()
        owner.control.send(message)
