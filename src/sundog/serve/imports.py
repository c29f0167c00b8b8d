"""Names of things in modules: `package.module:attr`, as configs and options of Serve write them.

Owns the import of such a name, and pickling what it names by value, so that a module beside the user's script need
not be importable in other processes. Runs in any process.
"""

from __future__ import annotations

import importlib
import inspect
import io
import threading
from types import ModuleType
from typing import Any

import cloudpickle

from sundog.config import user_environ

_LOCK, _RLOCK = type(threading.Lock()), type(threading.RLock())


def setting(name: str, default: float) -> float:
    """A number from an environment variable of Ray Serve.

    Raises:
        ValueError: the variable is not a number.
    """
    text = user_environ().get(name)
    if not text:
        return default
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{name}={text!r} is not a number.") from None


def import_attr(path: str) -> Any:
    """What `module:attr` or `module.attr` names. The name of Ray's own modules means sundog's.

    Raises:
        ValueError: there is no module in the path.
        ImportError, AttributeError: it is not there.
    """
    if ":" in path:
        module_name, _, attr = path.partition(":")
    else:
        module_name, _, attr = path.rpartition(".")
    if not module_name or not attr:
        raise ValueError(f"Got {path!r}, but an import path is written module:name, for example my_app:app.")
    try:
        found: object = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != "ray" or not module_name.startswith("ray"):
            raise
        found = importlib.import_module("sundog" + module_name.removeprefix("ray"))
    for part in attr.split("."):
        found = getattr(found, part)
    return found


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Takes what a FastAPI app has in it and pickle does not know: locks (the copy gets new ones) and states."""

    def reducer_override(self, each: object) -> object:
        if isinstance(each, _LOCK):
            return (threading.Lock, ())
        if isinstance(each, _RLOCK):
            return (threading.RLock, ())
        if type(each).__name__ == "State" and type(each).__module__ == "starlette.datastructures":
            return (type(each), (dict(vars(each)["_state"]),))
        return super().reducer_override(each)


def dumps(value: object) -> bytes:
    """Pickle user code."""
    buffer = io.BytesIO()
    _Pickler(buffer).dump(value)
    return buffer.getvalue()


def pickle_by_value(value: object) -> bytes:
    """A function or class, with its module's code in the pickle unless the module is installed."""
    module = inspect.getmodule(getattr(value, "__ray_actor_class__", value))
    if not isinstance(module, ModuleType) or module.__name__ == "__main__" or _is_installed(module):
        return dumps(value)
    cloudpickle.register_pickle_by_value(module)
    try:
        return dumps(value)
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def _is_installed(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None) or ""
    return not file or module.__name__.split(".")[0] == "sundog" or "site-packages" in file
