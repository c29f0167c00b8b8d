"""Small rules of Ray that programs rely on, each seen on both systems."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest

import sundog
from sundog import engines
from sundog.util import state
from sundog.wire.requests import ListRows
from tests.integration.gates import await_true

Start = Callable[..., ModuleType]
GET_S = 120


def test_objects_have_locations_and_sizes_once_they_are_ready(ray_session: Start) -> None:
    with pytest.raises(RuntimeError):
        sundog.experimental.get_object_locations([])
    ray = ray_session(num_cpus=1, object_store_memory=256 << 20)
    here = ray.get_runtime_context().get_node_id()

    @ray.remote
    def sleep() -> None:
        import threading

        threading.Event().wait()

    small, large, pending = ray.put("1"), ray.put(np.zeros(64 << 20, np.uint8)), sleep.remote()
    found = ray.experimental.get_object_locations([small, large, pending])
    assert [found[ref]["node_ids"] for ref in (small, large, pending)] == [[here], [here], []]
    assert found[small]["object_size"] > 0 and found[large]["object_size"] >= 64 << 20
    assert found[pending]["object_size"] is None

    # What objects take of the store is not available, until they are gone.
    total = ray.cluster_resources()["object_store_memory"]
    assert ray.available_resources()["object_store_memory"] <= total - (64 << 20)
    del large, found
    await_true(
        lambda: ray.available_resources()["object_store_memory"] > total - (32 << 20), "room in the store"
    )
    ray.cancel(pending, force=True)


def test_settings_say_how_many_dead_actors_are_listed_and_how_nice_workers_are(ray_session: Start) -> None:
    ray = ray_session(
        num_cpus=1, _system_config={"maximum_gcs_destroyed_actor_cached_count": 2, "worker_niceness": 17}
    )

    @ray.remote
    class Actor:
        def niceness(self) -> int:
            return os.getpriority(os.PRIO_PROCESS, 0)

        @ray.method(enable_task_events=True)
        def shown(self) -> None:
            return None

    actors = [Actor.options(enable_task_events=False).remote() for _ in range(4)]
    assert ray.get([actor.niceness.remote() for actor in actors], timeout=GET_S) == [17] * 4
    ray.get([actor.shown.remote() for actor in actors], timeout=GET_S)
    await_true(lambda: {row.name for row in state.list_tasks()} == {"Actor.shown"}, "the shown method alone")
    del actors
    # The state API lists all four all the same: records remember what the node forgot.
    engine = engines.current()
    assert engine is not None
    control = engine.owner.control
    await_true(lambda: len(control.request(ListRows("actors", 10.0))[0]) == 2, "two dead actors at the node")
    assert len(state.list_actors()) == 4


def test_what_makes_no_sense_is_refused_where_ray_refuses_it(ray: ModuleType) -> None:
    with pytest.raises(ValueError, match="bundle"):
        ray.util.placement_group([{"bundle": 1}])
    with pytest.raises(TypeError, match="enable_task_events"):
        ray.remote(len).options(enable_task_events=None)
    ray.shutdown()
    with pytest.raises(ValueError, match="absolute"):
        ray.init(_temp_dir="somewhere")
