"""Many actors over a program's life, few at a time: no descriptor of theirs is left in driver, node or zygote."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tests.integration import drivers
from tests.integration.gates import await_true

A_TIME = 10
"""Actors in a batch, of which two may overlap. With ``--seeds 200`` that is 2,000 actors, in two to three minutes."""


@pytest.mark.timeout(900)  # a process each
def test_actors_that_came_and_went_leave_no_descriptor_behind(
    ray_session: Callable[..., ModuleType], seeds: range
) -> None:
    ray = ray_session(num_cpus=2)

    @ray.remote(num_cpus=0)
    class One:
        def ask(self, other: Any = None) -> int:
            return 1 if other is None else int(ray.get(other.ask.remote()))

    def batch() -> None:
        actors = [One.remote() for _ in range(A_TIME)]
        assert ray.get([actor.ask.remote() for actor in actors]) == [1] * A_TIME
        assert ray.get(actors[0].ask.remote(actors[1])) == 1  # a lane and a channel between two of them

    batch()  # the zygote, which is started without waiting for it, is there now
    me = os.getpid()
    pids = {"driver": me, "node": drivers.node_pid(me), "zygote": drivers.zygote_pid(me)}

    def counts() -> dict[str, int]:
        return {name: len(os.listdir(f"/proc/{pid}/fd")) for name, pid in pids.items()}

    await_true(lambda: _workers(ray) <= 2, "the first actors ended")
    before = counts()
    for _ in seeds:
        batch()
    await_true(lambda: _workers(ray) <= 2, "the actors ended")
    # A few of the node's own may come and go (a file being read); what an actor leaves would be one for each.
    await_true(
        lambda: all(count <= before[name] + 2 for name, count in counts().items()),
        f"as few descriptors as before ({before})",
    )


def _workers(ray: ModuleType) -> int:
    from sundog.util.state import list_workers

    return sum(row.worker_type == "WORKER" and row.is_alive for row in list_workers(limit=10_000))
