"""Tasks that wait for tasks of their own kind: few processes, and the same results and errors as elsewhere."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from sundog import engines
from tests.integration.gates import await_true

GET_S = 60


def test_a_deep_recursion_takes_few_processes(ray_session: Callable[..., ModuleType]) -> None:
    ray = ray_session(num_cpus=2)

    @ray.remote
    def chain(left: int) -> set[int]:
        below: set[int] = ray.get(chain.remote(left - 1)) if left else set()
        return below | {os.getpid()}

    @ray.remote
    def fib(n: int) -> int:
        return sum(ray.get([fib.remote(n - 1), fib.remote(n - 2)])) if n > 1 else n

    assert len(ray.get(chain.remote(120), timeout=GET_S)) <= 20
    assert ray.get(fib.remote(9), timeout=GET_S) == 34


def test_what_runs_with_its_parent_is_a_task_like_others(ray_session: Callable[..., ModuleType]) -> None:
    ray = ray_session(num_cpus=1)

    @ray.remote
    def visit(what: str, level: int = 0) -> Any:
        if level:
            if what == "raise":
                raise KeyError("below")
            if what == "exit":
                sys.exit(3)
            if what == "large":
                return np.ones(300_000)
            if what == "ref":
                return [ray.put("inner")]
            return ray.get_runtime_context().get_task_id(), os.getpid()
        ref = visit.remote(what, level=1)
        if what == "raise":
            with pytest.raises(KeyError, match="below"):
                ray.get(ref)
            return "raised"
        if what == "exit":
            with pytest.raises(ray.exceptions.RayError):
                ray.get(ref)
            return "ended"
        found = ray.get(ref)
        if what == "large":
            return float(found.sum()), found.flags.writeable
        if what == "ref":
            return ray.get(found[0])
        return found, (ref.task_id().hex(), os.getpid()), ray.get_runtime_context().get_task_id()

    def run(what: str) -> Any:
        return ray.get(visit.remote(what), timeout=GET_S)

    child, expected, parent = run("ids")
    assert child == expected  # its own id, the process of its parent
    assert parent != child[0]
    assert run("raise") == "raised"
    assert run("exit") == "ended"
    assert run("large") == (300_000.0, False)
    assert run("ref") == "inner"


def test_a_task_of_another_function_has_a_process_of_its_own(ray_session: Callable[..., ModuleType]) -> None:
    ray = ray_session(num_cpus=1)

    @ray.remote(max_retries=0)
    def crash() -> None:
        os._exit(1)

    @ray.remote(max_retries=0)
    def parent() -> str:
        try:
            ray.get(crash.remote())
        except ray.exceptions.WorkerCrashedError:
            return "told"
        return "not told"

    assert ray.get(parent.remote(), timeout=GET_S) == "told"


def test_cancelling_the_parent_ends_the_child_that_runs_with_it(
    ray_session: Callable[..., ModuleType], tmp_path: Any
) -> None:
    from tests.integration.gates import await_file

    ray = ray_session(num_cpus=1)
    begun = tmp_path / "begun"

    @ray.remote(max_retries=0)
    def wait(level: int) -> None:
        if level:
            ray.get(wait.remote(level - 1))
            return
        begun.touch()
        while True:
            sum(range(1000))

    ref = wait.remote(2)
    await_file(begun)
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref, timeout=GET_S)
    assert ray.get(ray.remote(lambda: 1).remote(), timeout=GET_S) == 1


def test_a_parent_that_dies_while_its_child_runs_with_it_had_begun_and_runs_only_once(
    ray_session: Callable[..., ModuleType], tmp_path: Path
) -> None:
    ray = ray_session(num_cpus=1)

    @ray.remote(max_retries=0)
    def visit(level: int) -> None:
        with open(tmp_path / f"level-{level}", "a") as file:
            file.write(f"{os.getpid()}\n")
        if level:
            ray.get(visit.remote(level - 1))
        else:
            signal.pause()

    ref = visit.remote(2)
    await_true(lambda: (tmp_path / "level-0").exists() and (tmp_path / "level-0").read_text(), "the child")
    pid = int((tmp_path / "level-0").read_text())
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(ref, timeout=GET_S)
    assert [(tmp_path / f"level-{level}").read_text() for level in range(3)] == [f"{pid}\n"] * 3


def test_a_large_result_of_a_child_that_ran_with_its_parent_is_made_again_when_it_is_lost(
    ray_session: Callable[..., ModuleType], tmp_path: Path
) -> None:
    """The second child removes what the first has made, before their parent reads either."""
    ray = ray_session(num_cpus=1)

    @ray.remote(max_retries=1)
    def visit(what: str) -> Any:
        with (tmp_path / what).open("a") as file:
            file.write(f"{os.getpid()}\n")
        if what == "first":
            return np.full(300_000, 7)
        if what == "second":
            segments = Path(engines.current().owner.segments.shm_root)  # type: ignore[union-attr]
            for each in segments.glob("????????????????-*"):
                each.unlink()
            return 1
        first, second = ray.get([visit.remote("first"), visit.remote("second")])
        return int(first.sum()) + second

    assert ray.get(visit.remote("parent"), timeout=2 * GET_S) == 2_100_001
    runs = {what: (tmp_path / what).read_text().split() for what in ("parent", "first", "second")}
    assert runs["first"][0] == runs["second"][0] == runs["parent"][0]
    assert len(runs["first"]) == 2 and len(runs["second"]) == len(runs["parent"]) == 1
