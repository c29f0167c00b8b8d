"""Asyncio actors with concurrency groups: a loop and a thread for each."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import sundog
from sundog.exceptions import ActorDiedError, TaskCancelledError
from tests.integration.gates import Gate, await_true

GET_S = 120


class Grouped:
    def __init__(self) -> None:
        self.most = self.now = 0

    async def where(self) -> tuple[int, int]:
        return threading.get_ident(), id(asyncio.get_running_loop())

    @sundog.method(concurrency_group="io")
    async def where_io(self) -> tuple[int, int]:
        return threading.get_ident(), id(asyncio.get_running_loop())

    @sundog.method(concurrency_group="io")
    async def together(self) -> int:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.01)
        self.now -= 1
        return self.most

    async def block(self, gate: Gate) -> str:
        gate.enter()  # holds its loop
        return "default"

    @sundog.method(concurrency_group="io")
    async def block_io(self, gate: Gate) -> str:
        gate.enter()
        return "io"

    @sundog.method(concurrency_group="io")
    async def wait(self, begun: Path) -> None:
        begun.touch()
        await asyncio.Event().wait()

    @sundog.method(concurrency_group="io")
    async def count(self, most: int) -> Any:
        for number in range(most):
            yield number

    async def pid(self) -> int:
        return os.getpid()

    async def leave(self) -> None:
        sundog.actor.exit_actor()


@pytest.fixture
def grouped(ray: ModuleType) -> Any:
    return ray.remote(concurrency_groups={"io": 2})(Grouped).remote()


def test_each_group_has_a_loop_and_a_thread_of_its_own(ray: ModuleType, grouped: Any) -> None:
    refs = [grouped.where.remote() for _ in range(3)] + [grouped.where_io.remote() for _ in range(3)]
    found = ray.get(refs, timeout=GET_S)
    assert len(set(found[:3])) == len(set(found[3:])) == 1
    assert not set(found[0]) & set(found[3])
    assert ray.get(grouped.where.options(concurrency_group="io").remote(), timeout=GET_S) == found[3]


@pytest.mark.parametrize("blocked", ["block", "block_io"])
def test_a_blocked_group_holds_up_no_other(
    ray: ModuleType, grouped: Any, tmp_path: Path, blocked: str
) -> None:
    gate = Gate(tmp_path)
    ref = getattr(grouped, blocked).remote(gate)
    await_true(gate.inside, "the call that blocks")
    other = grouped.where_io if blocked == "block" else grouped.where
    assert len(ray.get([other.remote() for _ in range(20)], timeout=GET_S)) == 20
    gate.open()
    assert ray.get(ref, timeout=GET_S) == ("io" if blocked == "block_io" else "default")


def test_a_group_runs_as_many_calls_as_it_may_and_streams(ray: ModuleType, grouped: Any) -> None:
    assert max(ray.get([grouped.together.remote() for _ in range(20)], timeout=GET_S)) == 2
    assert [ray.get(ref) for ref in grouped.count.options(num_returns="streaming").remote(5)] == list(
        range(5)
    )


def test_calls_in_a_group_are_cancelled_running_or_waiting(
    ray: ModuleType, grouped: Any, tmp_path: Path
) -> None:
    refs = [grouped.wait.remote(tmp_path / str(number)) for number in range(4)]
    await_true(lambda: len(list(tmp_path.iterdir())) == 2, "two calls")
    for ref in reversed(refs):
        ray.cancel(ref)
    for ref in refs:
        with pytest.raises(TaskCancelledError):
            ray.get(ref, timeout=GET_S)
    assert len(list(tmp_path.iterdir())) == 2
    assert len(ray.get(grouped.where_io.remote(), timeout=GET_S)) == 2


def test_a_grouped_actor_ends_after_its_calls(ray: ModuleType, grouped: Any, tmp_path: Path) -> None:
    pid = ray.get(grouped.pid.remote(), timeout=GET_S)
    gate = Gate(tmp_path)
    held = grouped.block_io.remote(gate)
    await_true(gate.inside, "the call")
    left = grouped.leave.remote()
    assert ray.wait([left], timeout=0.2) == ([], [left])
    gate.open()
    assert ray.get(held, timeout=GET_S) == "io"
    with pytest.raises(ActorDiedError):
        ray.get(left, timeout=GET_S)
    await_true(lambda: not os.path.exists(f"/proc/{pid}"), "the end of the actor")


def test_the_last_handles_end_lets_grouped_calls_finish(ray: ModuleType) -> None:
    actor = ray.remote(concurrency_groups={"io": 2})(Grouped).remote()
    pid = ray.get(actor.pid.remote(), timeout=GET_S)
    refs = [actor.together.remote() for _ in range(10)]
    del actor
    assert len(ray.get(refs, timeout=GET_S)) == 10
    await_true(lambda: not os.path.exists(f"/proc/{pid}"), "the end of the actor")
