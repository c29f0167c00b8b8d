"""Applications built on the public verbs: pools, queues, placement groups, metrics, state.

Owns nothing but names: every attribute is imported on first use, so that `import sundog` stays
cheap. Runs in whichever process imports it, driver or worker.
"""

# No `from __future__ import annotations` here: it would hide the submodule of that name.
import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sundog.serialize.inspect import inspect_serializability
    from sundog.util import accelerators, iter, queue, state
    from sundog.util import debugpy as ray_debugpy
    from sundog.util import rpdb as pdb
    from sundog.util.actor_pool import ActorPool
    from sundog.util.addresses import get_node_instance_id, get_node_ip_address
    from sundog.util.completion import as_completed, map_unordered
    from sundog.util.debug import disable_log_once_globally, enable_periodic_logging, log_once
    from sundog.util.named_actors import list_named_actors
    from sundog.util.placement_group import (
        get_current_placement_group,
        get_placement_group,
        placement_group,
        placement_group_table,
        remove_placement_group,
    )
    from sundog.util.profiles import profile
    from sundog.util.progress_bars import progress
    from sundog.util.serialization import deregister_serializer, register_serializer
    from sundog.util.sessions import session, sessions

# Where each lazily imported name lives.
_HOMES = {
    "ActorPool": "sundog.util.actor_pool",
    "as_completed": "sundog.util.completion",
    "map_unordered": "sundog.util.completion",
    "log_once": "sundog.util.debug",
    "disable_log_once_globally": "sundog.util.debug",
    "enable_periodic_logging": "sundog.util.debug",
    "get_node_ip_address": "sundog.util.addresses",
    "get_node_instance_id": "sundog.util.addresses",
    "list_named_actors": "sundog.util.named_actors",
    "placement_group": "sundog.util.placement_group",
    "placement_group_table": "sundog.util.placement_group",
    "get_placement_group": "sundog.util.placement_group",
    "get_current_placement_group": "sundog.util.placement_group",
    "remove_placement_group": "sundog.util.placement_group",
    "progress": "sundog.util.progress_bars",
    "inspect_serializability": "sundog.serialize.inspect",
    "register_serializer": "sundog.util.serialization",
    "deregister_serializer": "sundog.util.serialization",
    "profile": "sundog.util.profiles",
    "session": "sundog.util.sessions",
    "sessions": "sundog.util.sessions",
}

_SUBMODULES = frozenset(
    {
        "accelerators",
        "actor_group",
        "actor_pool",
        "annotations",
        "check_serialize",
        "completion",
        "debug",
        "debugpy",
        "helpers",
        "iter",
        "iter_metrics",
        "joblib",
        "metrics",
        "multiprocessing",
        "queue",
        "rpdb",
        "scheduling_strategies",
        "serialization",
        "state",
    }
)

# Other names of submodules.
_ALIASES = {"pdb": "rpdb", "ray_debugpy": "debugpy"}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is not None:
        value = getattr(importlib.import_module(home), name)
    elif name in _SUBMODULES or name in _ALIASES:
        value = importlib.import_module(f"{__name__}.{_ALIASES.get(name, name)}")
    else:
        from sundog import absent

        why = absent.reason(f"util.{name}") or absent.NAMES["util"].get(name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}" + (f": {why}." if why else ""))
    globals()[name] = value
    return value


class _UtilPackage(ModuleType):
    """This package, where `placement_group` is a function although a module has that name too.

    The import system puts every submodule it loads, under any alias, into its package; here that would
    take the function's place.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __reduce__(self) -> "tuple[Callable[[str], ModuleType], tuple[str]]":
        # Picklers handle plain modules only. Pickled by name, like those: a closure may refer to this
        # package.
        return importlib.import_module, (self.__name__,)


sys.modules[__name__].__class__ = _UtilPackage


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_SUBMODULES, *_ALIASES})


__all__ = [
    "ActorPool",
    "accelerators",
    "as_completed",
    "deregister_serializer",
    "disable_log_once_globally",
    "enable_periodic_logging",
    "get_current_placement_group",
    "get_node_instance_id",
    "get_node_ip_address",
    "get_placement_group",
    "inspect_serializability",
    "iter",
    "list_named_actors",
    "log_once",
    "map_unordered",
    "pdb",
    "placement_group",
    "placement_group_table",
    "progress",
    "profile",
    "queue",
    "ray_debugpy",
    "register_serializer",
    "remove_placement_group",
    "session",
    "sessions",
    "state",
]
