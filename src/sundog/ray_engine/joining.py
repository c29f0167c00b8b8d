"""How a process comes to a Ray cluster, and how it leaves.

Owns which arguments of `init()` go to Ray, what is shipped to nodes that have no sundog, and the order of leaving:
records first. Runs in drivers, in the thread that calls `init()`, and once in each worker, in the thread of its first
task.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
from importlib import import_module
from typing import TYPE_CHECKING

from sundog import config, engines, notices
from sundog.ray_engine import graft, process, versions
from sundog.ray_engine.engine import RayEngine, native
from sundog.ray_engine.gathering import JOB_SETTING, Gathering

if TYPE_CHECKING:
    from types import ModuleType

    from sundog.plain import JsonMapping, JsonObject

# Options of init() that Ray has under the same name; an option that is not given is left out.
_SAME = [
    "num_cpus",
    "num_gpus",
    "resources",
    "labels",
    "object_store_memory",
    "include_dashboard",
    "dashboard_host",
    "dashboard_port",
    "configure_logging",
    "logging_format",
    "log_to_driver",
    "namespace",
    "enable_resource_isolation",
    "object_spilling_directory",
    "cgroup_path",
    "system_reserved_cpu",
    "system_reserved_memory",
    "_memory",
    "_temp_dir",
]


_leaving = threading.Lock()


def join(asked: JsonObject) -> RayEngine:
    """Be a driver (`init()`)."""
    ray = versions.import_ray()
    address = asked["address"]
    given = {name: asked[name] for name in _SAME if asked[name] is not None}
    given.update(_rays_settings(asked))
    if asked["dashboard_host"] == "127.0.0.1":
        del given["dashboard_host"]
    env = environment(asked["runtime_env"], address)
    if env:
        given["runtime_env"] = env
    try:
        native(ray.init)(address=address, **given)
    except (RuntimeError, ConnectionError) as error:
        raise versions.explain(error, address) from None
    return attach(ray, is_driver=True)


def _rays_settings(asked: JsonObject) -> dict[str, object]:
    """What has another form in Ray; settings of sundog's own that mean nothing there are named once."""
    found: JsonObject = dict(asked["other"])
    if asked["logging_level"] != "info":
        found["logging_level"] = notices.level_of(asked["logging_level"], "logging_level")
    if asked["logging_config"] is not None:
        theirs = import_module("ray").LoggingConfig
        found["logging_config"] = theirs(**asked["logging_config"].to_dict())
    if asked["job_config"] is not None:
        raise ValueError(
            "Engine 'ray' does not take job_config=: give namespace= and runtime_env= to init()."
        )
    own = {each.name for each in config.describe()}
    system = dict(asked["_system_config"] or {})
    idle = sorted(own.intersection(system))
    if idle:
        notices.warn(f"Settings without a meaning on engine 'ray': {', '.join(idle)}.")
    rest = {name: value for name, value in system.items() if name not in own}
    if rest:
        found["_system_config"] = rest
    return found


def environment(runtime_env: JsonMapping | None, address: str | None) -> JsonObject:
    """The job's runtime environment, with sundog itself for nodes that may lack it.

    A cluster that this program starts is on this machine, with this Python. A submitted job's environment may have
    sundog already: Ray takes each field from one place only.
    """
    env = dict(runtime_env or {})
    jobs = json.loads(config.user_environ().get(JOB_SETTING) or "{}").get("runtime_env") or {}
    is_own = address in (None, "local") and not config.user_environ().get("RAY_ADDRESS")
    if not is_own and "py_modules" not in jobs and config.load().ship_to_nodes:
        package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        env["py_modules"] = [*env.get("py_modules", []), package]
    return env


def attach(ray: ModuleType, *, is_driver: bool) -> RayEngine:
    """Make Ray, which this process is connected to, its engine."""
    graft.graft(ray)
    gathering = None
    if is_driver and not ray.util.client.ray.is_connected():
        mine = process.ready("driver")
        if mine.ring is not None:
            gathering = Gathering(ray, mine)
    engine = RayEngine(ray, is_driver=is_driver, gathering=gathering)
    engines.plug_foreign(engine)
    if is_driver:
        atexit.register(_leave_at_exit, engine)
    return engine


def attach_or_start(start: bool) -> RayEngine | None:
    """The engine of a process whose setting names Ray."""
    ray = sys.modules.get("ray")
    if ray is not None and hasattr(ray, "_raylet") and ray.is_initialized():
        from ray._private import worker as rays

        return attach(ray, is_driver=rays.global_worker.mode != rays.WORKER_MODE)
    if start:
        import_module("sundog.api").init()
        found = engines.foreign
        return found if isinstance(found, RayEngine) else None
    return None


def enter_worker() -> None:
    """The first shim runs in this worker: from now on `import sundog` continues on the engine of its driver."""
    if engines.foreign is None:
        attach(import_module("ray"), is_driver=False)


def leave(engine: RayEngine) -> None:
    """Bring the last records home, and leave the cluster; a second thread that does so finds nothing left to do.

    The process keeps this engine until it has left Ray: a thread that calls a verb meanwhile gets an error, instead of
    attaching to the connection as if the process had no engine yet.
    """
    with _leaving:
        if engine.is_left:
            return
        engine.is_left = True
    atexit.unregister(_leave_at_exit)
    try:
        if engine.is_driver and not engine.waits.end(engine.ray):
            notices.warn(
                "Another thread is still in get() or wait(): Ray may end this process when that wait ends."
            )
        if engine.gathering is not None:
            engine.gathering.stop()
        process.leave()
        import_module("ray._private.worker").shutdown()  # not ray.shutdown, which may be a wrapper of sundog
    finally:
        engines.plug_foreign(None)


def _leave_at_exit(engine: RayEngine) -> None:
    if engines.foreign is engine:
        leave(engine)
