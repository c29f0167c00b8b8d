"""What a running session has and did: nodes, resources, GPUs, the timeline. Unlike other verbs, these start none.

Owns the words of what users get back; the node and the recordings know the facts. Any thread, driver or worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from sundog import engines
from sundog.api import engine_of_session
from sundog.owner import context
from sundog.wire.requests import AvailableResources, ClusterResources, Nodes, Request

if TYPE_CHECKING:
    from sundog.plain import JsonObject

A = TypeVar("A")


def _ask(question: Request[A]) -> A:
    return engine_of_session().owner.control.request(question)


def nodes() -> list[JsonObject]:
    """The nodes of the session.

    Raises:
        RaySystemError: this process is in none.
    """
    if (other := engines.elsewhere()) is not None:
        return other.nodes()
    return _ask(Nodes())


def cluster_resources() -> dict[str, float]:
    """All logical resources of the session.

    Raises:
        RaySystemError: this process is in none.
    """
    if (other := engines.elsewhere()) is not None:
        return other.cluster_resources()
    return _ask(ClusterResources())


def available_resources() -> dict[str, float]:
    """The logical resources that are free now.

    Raises:
        RaySystemError: this process is in no session.
    """
    if (other := engines.elsewhere()) is not None:
        return other.available_resources()
    engine = engine_of_session()
    with engine.owner.lock:
        # A lease that is kept for the next task counts as free: the next task of any owner can have it.
        for lane in list(engine.owner.dispatch.leases.values()):
            if not lane.inflight and not lane.blocked:
                engine.owner.dispatch.release(lane)
    found: dict[str, float] = _ask(AvailableResources())
    return found


def get_gpu_ids() -> list[int] | list[str]:
    """Ids of the GPUs given to this task or actor."""
    if engines.foreign is not None:
        return engines.foreign.gpu_ids()
    return list(context.facts.accelerators.get("GPU", ()))  # type: ignore[return-value]  # all of one kind


def timeline(filename: str | None = None) -> list[JsonObject] | None:
    """What ran where and when, as a Chrome trace; written to `filename` if one is given.

    Raises:
        RuntimeError: this process is in no session.
    """
    import json

    from sundog.observe.index import opened
    from sundog.observe.trace import pieces

    with opened(_folder()) as index:
        if filename is None:
            found: list[dict[str, object]] = json.loads("".join(pieces(index)))
            return found
        with open(filename, "w", encoding="utf-8") as file:
            file.writelines(pieces(index))
    return None


def _folder() -> str:
    """Where the records of this process's session are, up to date."""
    if (other := engines.elsewhere()) is not None and other.folder:
        other.flush()
        return other.folder
    engine = engines.current()
    if engine is None:
        raise RuntimeError("There is no session, so there is no timeline: call sundog.init() first.")
    return str(engine.owner.control.session["path"])
