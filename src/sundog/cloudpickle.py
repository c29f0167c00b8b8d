"""The pickler that sundog uses, under the name by which programs written for Ray import it.

Owns nothing: every name is the package cloudpickle's own, but for the two that explain a failure. Runs in any process.
"""

from __future__ import annotations

import pickle
from typing import IO, Any

import cloudpickle as _package
from cloudpickle import *  # noqa: F403
from cloudpickle import CloudPickler, cloudpickle, dumps, loads

Pickler = CloudPickler
DEFAULT_PROTOCOL = cloudpickle.DEFAULT_PROTOCOL
load = pickle.load

__all__ = [
    "CloudPickler",
    "Pickler",
    "cloudpickle",
    "dump",
    "dump_debug",
    "dumps",
    "dumps_debug",
    "load",
    "loads",
]


def dump(obj: object, file: IO[bytes], protocol: int | None = None, buffer_callback: object = None) -> None:
    """Pickle into a file."""
    _package.dump(obj, file, protocol, buffer_callback)


def dumps_debug(obj: object, *args: object, **kwargs: object) -> Any:
    """Pickle; if that fails, the error says which part of the value cannot be."""
    try:
        return dumps(obj, *args, **kwargs)
    except (TypeError, pickle.PicklingError, AttributeError) as error:
        from sundog.serialize.inspect import explain

        raise TypeError(explain(obj, error, what="the value")) from error


def dump_debug(obj: object, file: IO[bytes], *args: object, **kwargs: object) -> None:
    """The same into a file."""
    file.write(dumps_debug(obj, *args, **kwargs))


def __getattr__(name: str) -> object:
    return getattr(cloudpickle, name)
