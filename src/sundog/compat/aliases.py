"""Answers for the names `ray` and `ray.…` in the import system, with sundog's own modules.

Owns the finder, the loader, and the list of Ray's modules that sundog stands in for. Refuses everything
else below `ray`: a private module of Ray has no counterpart here, and a private module of ours that happens
to share a name with one (`ray.state`) would be the wrong one. Runs inside the import machinery, in the
importing thread.

    import ray.util.queue
      └─ RayFinder.find_spec("ray.util.queue") ── not ours to give ──► ModuleNotFoundError that says so
           └─ _AliasLoader.create_module ──► importlib.import_module("sundog.util.queue"), the same object
"""

import importlib
import importlib.util
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from sundog import absent

# What Ray documents below its own name and sundog provides, each with everything below it.
_STANDS_IN_FOR = frozenset(
    {
        "actor",
        "cloudpickle",
        "cluster_utils",
        "cross_language",
        "dag",
        "exceptions",
        "experimental",
        "internal",
        "job_config",
        "job_submission",
        "remote_function",
        "runtime_context",
        "runtime_env",
        "serve",
        "types",
        "util",
    }
)

# Ray's base class for plug-ins of `runtime_env` is for users, and lives below a private package.
_PLUGIN_MODULES = {
    "_private.runtime_env.plugin": "sundog.runtime_env.plugin",
    "_private.runtime_env.context": "sundog.runtime_env.plugin",
}
_PLUGIN_PACKAGES = frozenset({"_private", "_private.runtime_env"})


class RayFinder(MetaPathFinder):
    """Finds `ray` and `ray.…` as aliases of sundog's modules."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A spec that loads as sundog's module; None for names that are none of Ray's.

        Raises:
            ModuleNotFoundError: the name is Ray's, and sundog has nothing for it. Returning None would let
                the path finder load sundog's own file again under the other name.
        """
        package, _, rest = fullname.partition(".")
        if package == "sundog" and rest in absent.MODULES and rest not in _STANDS_IN_FOR:
            # `from ray import data` asks for "sundog.data", since that is what the module `ray` calls
            # itself. An error that names another module than the one asked for is not swallowed by the
            # from-import.
            raise _not_here("ray." + rest)
        if package != "ray":
            return None
        if rest in _PLUGIN_PACKAGES:
            return ModuleSpec(
                fullname, _PackageLoader(), origin="way to the plug-ins' base class", is_package=True
            )
        if rest in _PLUGIN_MODULES:
            return ModuleSpec(
                fullname, _AliasLoader(_PLUGIN_MODULES[rest]), origin="sundog.runtime_env.plugin"
            )
        real_name = "sundog" + fullname.removeprefix("ray")
        if rest and (rest.partition(".")[0] not in _STANDS_IN_FOR or not _exists(real_name)):
            raise _not_here(fullname)
        return ModuleSpec(fullname, _AliasLoader(real_name), origin=f"alias of {real_name}")


class _AliasLoader(Loader):
    """Gives an existing module (imported first if need be) instead of making one."""

    def __init__(self, real_name: str) -> None:
        self._real_name = real_name
        self._real_spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._real_name)
        self._real_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # It ran when it was imported under its own name. The import system has just overwritten the spec
        # with the alias's; reload(), pickling by reference and `python -m` all go by the real one.
        module.__spec__ = self._real_spec


class _PackageLoader(Loader):
    """Makes an empty package; what is looked for in it is refused with the reason."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        def missing(name: str) -> object:
            raise AttributeError(str(_not_here(f"{module.__name__}.{name}")), name=name, obj=module)

        module.__getattr__ = missing  # type: ignore[method-assign]


def _exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError as error:
        # A parent that is missing, or is a plain module and so has nothing below it. Anything else that one
        # of our modules fails to import (an optional dependency, say) is the reader's real problem: let it
        # through.
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            return False
        raise


def _not_here(name: str) -> ModuleNotFoundError:
    _, _, path = name.partition(".")
    reason = absent.reason(path) or (
        "it is private to Ray, and sundog stands in for Ray's public modules only"
        if path.startswith("_")
        else "sundog has no counterpart of it"
    )
    return ModuleNotFoundError(
        f"no module named {name!r}: {reason}. `import ray` gives sundog in this process; to run this program "
        "on Ray itself, start it with plain python where Ray is installed",
        name=name,
    )
