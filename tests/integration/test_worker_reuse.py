"""Workers that have run tasks become actors, but not while others hold what those tasks have made; GPUs keep apart."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.integration.gates import await_true

GET_S = 120


def make_actor(ray: ModuleType) -> Any:
    @ray.remote
    class Actor:
        def pid(self) -> int:
            return os.getpid()

    return Actor.remote()


@pytest.mark.parametrize("end", ["kill", "scope"])
def test_an_actor_does_not_take_the_worker_that_owns_an_object_which_is_held(
    ray_session: Callable[..., ModuleType], end: str
) -> None:
    ray = ray_session(num_cpus=1)

    @ray.remote
    def make() -> list[Any]:
        return [ray.put(np.ones(300_000)), os.getpid()]

    ref, pid = ray.get(make.remote(), timeout=GET_S)
    actor = make_actor(ray)
    other = ray.get(actor.pid.remote(), timeout=GET_S)
    assert other != pid
    if end == "kill":
        ray.kill(actor)
    del actor
    again = make_actor(ray)
    assert ray.get(again.pid.remote(), timeout=GET_S) not in (pid, other)
    assert ray.get(ref, timeout=GET_S).sum() == 300_000


def test_an_actor_made_by_a_task_outlives_the_actors_that_come_after(
    ray_session: Callable[..., ModuleType],
) -> None:
    ray = ray_session(num_cpus=2)

    @ray.remote
    def make() -> Any:
        return make_actor(ray)

    inner = ray.get(make.remote(), timeout=GET_S)
    pid = ray.get(inner.pid.remote(), timeout=GET_S)
    for _ in range(3):
        ray.kill(make_actor(ray))
    assert ray.get(inner.pid.remote(), timeout=GET_S) == pid


def test_an_actor_takes_a_worker_whose_objects_nobody_needs(ray_session: Callable[..., ModuleType]) -> None:
    ray = ray_session(num_cpus=1)

    @ray.remote
    def work() -> int:
        return os.getpid()

    pids = {ray.get(work.remote(), timeout=GET_S) for _ in range(3)}
    assert ray.get(make_actor(ray).pid.remote(), timeout=GET_S) in pids


def test_tasks_with_and_without_a_gpu_never_share_a_process(ray_session: Callable[..., ModuleType]) -> None:
    ray = ray_session(num_cpus=1, num_gpus=1)

    @ray.remote
    def pid() -> int:
        return os.getpid()

    plain = ray.get(pid.remote(), timeout=GET_S)
    with_gpu = ray.get(pid.options(num_gpus=1).remote(), timeout=GET_S)
    assert plain != with_gpu
    assert ray.get(pid.remote(), timeout=GET_S) == plain


def test_reading_a_borrowed_object_that_is_ready_starts_no_further_process(
    ray_session: Callable[..., ModuleType],
) -> None:
    ray = ray_session(num_cpus=2)
    refs = [ray.put(np.ones(100_000)) for _ in range(10)]

    @ray.remote
    def read(refs: list[Any]) -> int:
        ray.get(refs[0])
        ray.get(refs)
        ray.wait(refs, num_returns=len(refs))
        return os.getpid()

    assert len(set(ray.get([read.remote(refs) for _ in range(20)], timeout=GET_S))) <= 2


def test_a_task_that_waits_for_a_borrowed_object_lends_its_cpu(
    ray_session: Callable[..., ModuleType],
) -> None:
    ray = ray_session(num_cpus=1)

    @ray.remote
    def later() -> int:
        return 5

    @ray.remote
    def read(refs: list[Any], gate: Any) -> Any:
        gate.open.remote()
        return ray.get(refs[0])

    @ray.remote(num_cpus=0)
    class Gate:
        def open(self) -> None:
            self.is_open = True

        def wait(self) -> bool:
            return hasattr(self, "is_open")

    @ray.remote
    def after(gate: Any) -> int:
        while not ray.get(gate.wait.remote()):
            pass
        return int(ray.get(later.remote())) + 1

    gate = Gate.remote()
    made = after.remote(gate)
    assert ray.get(read.remote([made], gate), timeout=GET_S) == 6


def test_a_garbage_collection_in_a_worker_leaves_what_the_zygote_imported_alone(
    ray_session: Callable[..., ModuleType],
) -> None:
    """Every object that the collector looks at is written to, so its page is no longer shared with other workers."""
    ray = ray_session(num_cpus=1)

    @ray.remote
    def look() -> tuple[int, int]:
        import gc

        return gc.get_freeze_count(), len(gc.get_objects())

    frozen, looked_at = ray.get(look.remote(), timeout=GET_S)
    assert frozen > looked_at


def test_a_worker_that_has_run_max_calls_stays_while_others_hold_what_it_made(ray: ModuleType) -> None:
    @ray.remote
    def late() -> int:
        return 7

    @ray.remote(max_calls=1, max_retries=0)
    def nest() -> Any:
        return os.getpid(), late.remote(), ray.put(8)

    pid, later, put = ray.get(nest.remote(), timeout=GET_S)
    assert ray.get([later, put], timeout=GET_S) == [7, 8]
    assert ray.get(nest.remote(), timeout=GET_S)[0] != pid
    del later, put
    await_true(lambda: not os.path.exists(f"/proc/{pid}"), "the end of the worker")
