"""Where the workers of a node are: each has a fault handler that writes its stacks when it is sent a signal.

The handler answers also while C code keeps Python from running. Owns the file beside the worker's ring, and the
question to all workers of a node: a task there. Runs in workers, and in these tasks.
"""

from __future__ import annotations

import faulthandler
import json
from typing import IO, TYPE_CHECKING

from sundog.observe.fault_dumps import state_of, written
from sundog.owner.fault_dumps import SIGNAL
from sundog.ray_engine.pushes import rings_in

if TYPE_CHECKING:
    from sundog.plain import JsonObject

_open: list[IO[str]] = []


def listen(ring: str) -> None:
    """Write this process's stacks beside its ring whenever it is asked to."""
    file = open(f"{ring}.faults", "a", encoding="utf-8")
    _open.append(file)
    faulthandler.register(SIGNAL, file, all_threads=True, chain=False)


def stop() -> None:
    """Listen no more."""
    while _open:
        faulthandler.unregister(SIGNAL)
        _open.pop().close()


def stacks_of(folder: str) -> list[JsonObject]:
    """The stacks of the workers of a job on this node: the ids of each, and what its fault handler wrote."""
    found = []
    for ring in rings_in(folder):
        with open(f"{ring}.json", encoding="utf-8") as file:
            facts = json.load(file)
        if facts["role"] != "worker" or state_of(facts["pid"]) in ("", "Z", "X"):
            continue
        try:
            text = written(f"{ring}.faults", facts["pid"])
        except OSError as error:
            text = ""
            facts["note"] = f"its stacks cannot be read: {error.strerror}"
        found.append({**facts, "text": text})
    return found
