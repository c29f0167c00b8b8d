"""Ray's errors and objects under sundog's names too: `except` and `isinstance` hold for both.

`except` goes by the real bases of a class, so sundog's class becomes a base of Ray's of the same name. Ray's classes
keep every method that they have now, and their pickles do not change. Owns this change of Ray's classes, made once in
a process. Runs in drivers and workers when they come to this engine.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from sundog import actor, exceptions, generator, refs
from sundog.util.placement_group import PlacementGroup

_KEPT = ("__init__", "__str__", "__repr__", "__reduce__", "__setstate__", "to_bytes", "from_bytes")
_done = False
left: list[str] = []
"""Errors of Ray's that could not be given a base of sundog's."""


def graft(ray: ModuleType) -> None:
    """Do so; the second time it does nothing, but for what a connection through `ray://` brings."""
    global _done
    if not _done:
        _done = True
        _errors(import_module("ray.exceptions"))
        refs.ObjectRef.theirs = (ray.ObjectRef,)
        actor.ActorHandle.theirs = (ray.actor.ActorHandle,)
        generator.ObjectRefGenerator.theirs = (ray.ObjectRefGenerator,)
        PlacementGroup.theirs = (import_module("ray.util.placement_group").PlacementGroup,)
        refs.look_for_counterparts()
    if len(refs.ObjectRef.theirs) == 1 and ray.util.client.ray.is_connected():
        client = import_module("ray.util.client.common")
        refs.ObjectRef.theirs += (client.ClientObjectRef,)
        actor.ActorHandle.theirs += (client.ClientActorHandle,)


def _errors(theirs: ModuleType) -> None:
    pairs = []
    for name, our in list(vars(exceptions).items()):
        their = getattr(theirs, name, None)
        if isinstance(our, type) and issubclass(our, BaseException) and isinstance(their, type):
            if not issubclass(their, our):
                pairs.append((their, our))
    for their, _ in pairs:
        for method in _KEPT:
            if method not in vars(their) and hasattr(their, method):
                setattr(their, method, getattr(their, method))
    # In sundog's class `error_msg` is a property without storage; Ray's constructors assign it.
    theirs.RayActorError.error_msg = ""
    for their, our in pairs:
        bases = tuple(our if base.__module__ == "builtins" else base for base in their.__bases__)
        try:
            their.__bases__ = bases if our in bases else (*bases, our)
        except TypeError:
            left.append(their.__name__)
