"""sundog: Ray's public API on one machine, fast, and able to say what a program did.

    >>> import sundog as ray
    >>> @ray.remote
    ... def square(x):
    ...     return x * x
    >>> with ray.init(num_cpus=2):
    ...     ray.get([square.remote(i) for i in range(4)])
    [0, 1, 4, 9]

Everything heavy is imported when it is first used.
"""

from __future__ import annotations

import sys
from importlib import import_module

from sundog import isolation as _isolation

# Type checkers take this name for typing's own; importing typing here would slow down every start.
TYPE_CHECKING = False

__version__ = "0.1.0"

_HOME = {
    "sundog.api": (
        "cancel",
        "get",
        "get_actor",
        "is_initialized",
        "kill",
        "put",
        "remote",
        "shutdown",
        "wait",
    ),
    "sundog.session_facts": (
        "available_resources",
        "cluster_resources",
        "get_gpu_ids",
        "nodes",
        "timeline",
    ),
    "sundog.advice.doctor": ("doctor",),
    "sundog.actor": ("ActorClass", "ActorHandle", "ActorMethod", "method"),
    "sundog.refs": ("ObjectID", "ObjectRef"),
    "sundog.generator": ("DynamicObjectRefGenerator", "ObjectRefGenerator", "StreamingObjectRefGenerator"),
    "sundog.logging_config": ("LoggingConfig",),
    "sundog.runtime_context": ("get_runtime_context",),
    "sundog.cross_language": ("Language", "cpp_function", "java_actor_class", "java_function"),
    "sundog.public_ids": (
        "ActorClassID",
        "ActorID",
        "ClusterID",
        "FunctionID",
        "JobID",
        "NodeID",
        "PlacementGroupID",
        "TaskID",
        "UniqueID",
        "WorkerID",
    ),
}
_WHERE = {name: module for module, names in _HOME.items() for name in names}
_MODULES = frozenset(
    {
        "actor",
        "api",
        "cloudpickle",
        "cluster_utils",
        "cross_language",
        "exceptions",
        "experimental",
        "internal",
        "job_config",
        "observe",
        "remote_function",
        "runtime_context",
        "runtime_env",
        "types",
        "util",
    }
)

# How a process takes part in a session, with Ray's numbers.
SCRIPT_MODE, WORKER_MODE, SPILL_WORKER_MODE, RESTORE_WORKER_MODE = range(4)
# Which verbs start a session by themselves, and which only work in one.
AUTO_INIT_APIS = frozenset({"get_actor", "get_runtime_context", "put"})
NON_AUTO_INIT_APIS = frozenset(
    {
        "available_resources",
        "cluster_resources",
        "init",
        "is_initialized",
        "method",
        "nodes",
        "remote",
        "shutdown",
    }
) | frozenset({"cancel", "get", "get_gpu_ids", "kill", "timeline", "wait"})

__all__ = [
    "ActorClass",
    "ActorClassID",
    "ActorHandle",
    "ActorID",
    "ActorMethod",
    "ClusterID",
    "DynamicObjectRefGenerator",
    "FunctionID",
    "JobID",
    "Language",
    "LoggingConfig",
    "NodeID",
    "ObjectID",
    "ObjectRef",
    "ObjectRefGenerator",
    "PlacementGroupID",
    "StreamingObjectRefGenerator",
    "TaskID",
    "UniqueID",
    "WorkerID",
    "__version__",
    "available_resources",
    "cancel",
    "cluster_resources",
    "doctor",
    "exceptions",
    "get",
    "get_actor",
    "get_gpu_ids",
    "get_runtime_context",
    "init",
    "is_initialized",
    "kill",
    "method",
    "nodes",
    "put",
    "remote",
    "shutdown",
    "timeline",
    "util",
    "wait",
]


class _Init:
    """`init()` for a program that has not imported the API yet: its node starts while that happens."""

    def __call__(self, *args: object, **kwargs: object) -> object:
        try:
            return self._begin(*args, **kwargs)
        except (AttributeError, ImportError) as error:
            _isolation.note_shadows(error)
            raise

    def _begin(self, *args: object, **kwargs: object) -> object:
        from sundog import early

        engines = sys.modules.get("sundog.engines")
        current = getattr(engines, "current", None)  # another thread may be importing them
        if current is None or current() is None:
            if early.is_likely(args[0] if args else kwargs.get("address"), kwargs.get("engine")):
                early.begin()
        import gc

        # With the garbage collector off: almost nothing that imports and the first init create is garbage.
        was_on = gc.isenabled()
        gc.disable()
        try:
            return import_module("sundog.api").init(*args, **kwargs)
        finally:
            if was_on:
                gc.enable()
            early.drop()  # unless it was taken

    def __getattr__(self, name: str) -> object:
        # help() and inspect.signature() see the real function.
        return getattr(import_module("sundog.api").init, name)

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return import_module("sundog.api").init.__doc__  # type: ignore[no-any-return]

    @property
    def __signature__(self) -> object:
        return import_module("inspect").signature(import_module("sundog.api").init)


_init = _Init()
_isolation.stand_by()


class _MissingName(AttributeError):
    """No such name. The reason is looked up when the text is read: every import of a submodule raises this once."""

    def __str__(self) -> str:
        absent = import_module("sundog.absent")
        why = absent.reason(self.name) or absent.NAMES[""].get(self.name)
        return f"{self.args[0]}: {why}." if why else str(self.args[0])


def __getattr__(name: str) -> object:
    if name == "init":
        api = sys.modules.get("sundog.api")
        return _init if api is None else getattr(api, "init", _init)
    module = _WHERE.get(name)
    if module is not None:
        found = getattr(import_module(module), name)
        globals()[name] = found
        return found
    if name in _MODULES:
        return import_module(f"sundog.{name}")
    raise _MissingName(f"module 'sundog' has no attribute {name!r}", name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE, *_MODULES, "init"})


if TYPE_CHECKING:
    from sundog import exceptions, util
    from sundog.actor import ActorClass, ActorHandle, ActorMethod, method
    from sundog.advice.doctor import doctor
    from sundog.api import (
        cancel,
        get,
        get_actor,
        init,
        is_initialized,
        kill,
        put,
        remote,
        shutdown,
        wait,
    )
    from sundog.cross_language import Language
    from sundog.generator import DynamicObjectRefGenerator, ObjectRefGenerator, StreamingObjectRefGenerator
    from sundog.logging_config import LoggingConfig
    from sundog.public_ids import (
        ActorClassID,
        ActorID,
        ClusterID,
        FunctionID,
        JobID,
        NodeID,
        PlacementGroupID,
        TaskID,
        UniqueID,
        WorkerID,
    )
    from sundog.refs import ObjectID, ObjectRef
    from sundog.runtime_context import get_runtime_context
    from sundog.session_facts import available_resources, cluster_resources, get_gpu_ids, nodes, timeline
