"""The Ray engine: the public API of sundog on a Ray cluster, with sundog's records of what happens there.

::

    user's program ── sundog's verbs ──► RayEngine ── Ray's verbs ──► cluster
                                           │                            │ runs shims around the user's code
                                           └── Home, an actor on the driver's node ◄── pushes of every worker
                                                  │
                                                  └──► an ordinary session folder

Owns how a process comes to this engine: by `init()`, by the setting, or in a worker by the shim that runs there.
Refuses a network of its own: everything travels by Ray. Runs in drivers and in Ray's workers; nothing of it is
imported elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sundog.ray_engine.engine import RayEngine


def join(asked: dict[str, object]) -> RayEngine:
    """Be a driver of a Ray cluster: `init()` on this engine.

    Args:
        asked: the arguments of `init()` by their names.

    Raises:
        ImportError: Ray is not here, is another release, or `import ray` gives sundog.
        ValueError: an argument has no meaning on a Ray cluster.
    """
    from sundog.ray_engine import joining

    return joining.join(asked)


def attach_or_start(start: bool) -> RayEngine | None:
    """The engine of a process whose setting names Ray: of the session that it is in, or of one that begins now."""
    from sundog.ray_engine import joining

    return joining.attach_or_start(start)
