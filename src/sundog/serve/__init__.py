"""Serve: deployments, handles and HTTP on top of actors, with Ray Serve's interface.

::

    @serve.deployment                      client ══HTTP══► proxy ──► replica of Hello
    class Hello:                                             (calls over the ordinary lanes)
        async def __call__(self, request): ...
    handle = serve.run(Hello.bind())       handle.remote() ──────────► replica of Hello

Needs the extra `sundog[serve]`. Owns the public names; docs/serve.md tells how to use them.
"""

import sys as _sys
from importlib import import_module as _import_module
from types import ModuleType as _ModuleType

from sundog import isolation as _isolation
from sundog.serve import _needs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sundog.serve.batching import batch
    from sundog.serve.config import ControllerOptions, HTTPOptions
    from sundog.serve.context import (
        get_deployment_actor,
        get_deployment_actor_context,
        get_multiplexed_model_id,
        get_replica_context,
    )
    from sundog.serve.deployment import Application, Deployment, deployment
    from sundog.serve.ingress import ingress
    from sundog.serve.multiplex import multiplexed
    from sundog.serve.schema import TracingConfig
    from sundog.serve.utils import get_trace_context
    from sundog.serve.verbs import (
        RunTarget,
        _run,
        _run_many,
        delete,
        get_app_handle,
        get_deployment_handle,
        run,
        run_many,
        shutdown,
        shutdown_async,
        start,
        status,
    )

# The module of each name. It is imported with the first use of the name: the processes of a session that starts in
# between load the same modules at the same time.
_HOMES = {
    **dict.fromkeys(("Application", "Deployment", "deployment"), "deployment"),
    **dict.fromkeys(("ControllerOptions", "HTTPOptions"), "config"),
    **dict.fromkeys(
        (
            "get_deployment_actor",
            "get_deployment_actor_context",
            "get_multiplexed_model_id",
            "get_replica_context",
        ),
        "context",
    ),
    "TracingConfig": "schema",
    "batch": "batching",
    "get_trace_context": "utils",
    "ingress": "ingress",
    "multiplexed": "multiplex",
    **dict.fromkeys(
        (
            "RunTarget",
            "_run",
            "_run_many",
            "delete",
            "get_app_handle",
            "get_deployment_handle",
            "run",
            "run_many",
            "shutdown",
            "shutdown_async",
            "start",
            "status",
        ),
        "verbs",
    ),
}
# With Ray, `import starlette` gives its requests too. A decorator's name is looked up before what it decorates is
# defined, so annotations there find them.
_DECORATORS = ("deployment", "ingress")


class _ServePackage(_ModuleType):
    """This package: its names come with their first use, and `deployment` is a decorator although a module has that
    name too.

    `import ray.serve.deployment` of a program that runs on sundog sets the module as an attribute here.
    """

    def __getattr__(self, name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if name in _DECORATORS:
            _needs.load("starlette.requests")
        value: object = getattr(_needs.load(f"{self.__name__}.{home}"), name)
        super().__setattr__(name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *_HOMES})

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in __all__ and isinstance(value, _ModuleType)):
            super().__setattr__(name, value)

    def __reduce__(self) -> tuple[object, ...]:
        # Picklers handle plain modules only. Pickled by name, like those: a closure may refer to this
        # package.
        return _import_module, (self.__name__,)


_sys.modules[__name__].__class__ = _ServePackage
_sys.meta_path.append(_needs.AbsentFinder())
_isolation.workers_want("sundog.serve.processes", "pydantic", "starlette", "uvicorn")

__all__ = [
    "Application",
    "ControllerOptions",
    "Deployment",
    "HTTPOptions",
    "RunTarget",
    "TracingConfig",
    "_run",
    "_run_many",
    "batch",
    "delete",
    "deployment",
    "get_app_handle",
    "get_deployment_actor",
    "get_deployment_actor_context",
    "get_deployment_handle",
    "get_multiplexed_model_id",
    "get_replica_context",
    "get_trace_context",
    "ingress",
    "multiplexed",
    "run",
    "run_many",
    "shutdown",
    "shutdown_async",
    "start",
    "status",
]
