"""What the state API tells of tasks that end their process, and of the workers that end with them."""

# mypy: disable-error-code="untyped-decorator"
# `ray` is whichever module the fixture gives, so its decorator has no type.
from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sundog.actor import exit_actor
from sundog.exceptions import RayError, TaskCancelledError, WorkerCrashedError
from sundog.util import placement_group, remove_placement_group, state
from sundog.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from tests.integration import drivers
from tests.integration.gates import await_true

GET_S = 120


def states_of(name: str) -> list[tuple[str, str | None]]:
    return [
        (row.state, row.error_type) for row in state.list_tasks(filters=[("name", "=", name)], detail=True)
    ]


def exit_of(pid: int) -> tuple[str, str]:
    """Exit type and detail of a worker, when it has ended."""

    def gone() -> list[Any]:
        return state.list_workers(filters=[("pid", "=", pid), ("is_alive", "=", False)], detail=True)

    await_true(gone, "the end of the worker")
    [row] = gone()
    return row.exit_type, row.exit_detail


def leave(how: str) -> None:
    if how == "exit_actor":
        exit_actor()
    sys.exit(int(how))


@pytest.mark.parametrize(
    ("how", "shown", "exit_type", "told"),
    [
        ("exit_actor", ("FINISHED", None), "INTENDED_USER_EXIT", "exit_actor()"),
        ("0", ("FINISHED", None), "INTENDED_USER_EXIT", "exit code 0"),
        ("4", ("FAILED", "ACTOR_DIED"), "SYSTEM_ERROR", "exit code 4"),
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_call_that_ends_its_actor_in_good_order_is_finished(
    ray: ModuleType, how: str, shown: tuple[str, str | None], exit_type: str, told: str, threads: int
) -> None:
    @ray.remote(max_concurrency=threads)
    class Leaver:
        def pid(self) -> int:
            return os.getpid()

        def go(self) -> None:
            leave(how)

    leaver = Leaver.remote()
    pid = ray.get(leaver.pid.remote(), timeout=GET_S)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(leaver.go.options(name="go").remote(), timeout=GET_S)
    assert states_of("go") == [shown]
    kind, detail = exit_of(pid)
    assert kind == exit_type
    assert told in detail


@pytest.mark.parametrize(("code", "shown"), [(0, ("FINISHED", None)), (3, ("FAILED", "WORKER_DIED"))])
def test_a_task_that_exits_with_code_zero_is_finished_and_its_worker_says_so(
    ray: ModuleType, tmp_path: Path, code: int, shown: tuple[str, str | None]
) -> None:
    @ray.remote(max_retries=0)
    def leaves() -> None:
        (tmp_path / "pid").write_text(str(os.getpid()))
        sys.exit(code)

    with pytest.raises(WorkerCrashedError):
        ray.get(leaves.remote(), timeout=GET_S)
    await_true(lambda: states_of("leaves") == [shown], "the state of the task")
    assert f"exit code {code}" in exit_of(int((tmp_path / "pid").read_text()))[1]


def test_a_task_that_is_cancelled_while_it_runs_is_finished_but_by_force_it_failed(
    ray: ModuleType, tmp_path: Path
) -> None:
    @ray.remote
    def waits(name: str) -> None:
        (tmp_path / name).touch()
        while True:
            time.sleep(0.01)

    for name, force, shown in (
        ("asked", False, ("FINISHED", None)),
        ("forced", True, ("FAILED", "TASK_CANCELLED")),
    ):
        ref = waits.options(name=name).remote(name)
        await_true((tmp_path / name).exists, "the task")
        ray.cancel(ref, force=force)
        with pytest.raises(TaskCancelledError):
            ray.get(ref, timeout=GET_S)
        await_true(lambda name=name, shown=shown: states_of(name) == [shown], "the state of the task")


def test_a_retry_is_created_after_the_attempt_that_failed(ray: ModuleType) -> None:
    @ray.remote(max_retries=1, retry_exceptions=True)
    def fails() -> None:
        raise ValueError("twice")

    with pytest.raises(ValueError, match="twice"):
        ray.get(fails.remote(), timeout=GET_S)
    rows = state.list_tasks(filters=[("name", "=", "fails")], detail=True)
    first, second = sorted(rows, key=lambda row: row.attempt_number)
    assert first.end_time_ms == second.creation_time_ms
    times: list[Any] = [first.creation_time_ms, second.creation_time_ms, second.start_time_ms]
    assert times == sorted(times)


def test_the_exit_detail_of_a_worker_names_the_cause(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote(num_cpus=1)
    class Plain:
        def __init__(self, raises: bool = False) -> None:
            (tmp_path / "pid").write_text(str(os.getpid()))
            if raises:
                raise RuntimeError("not today")

        def pid(self) -> int:
            return os.getpid()

    with pytest.raises(RayError):
        ray.get(Plain.remote(True).pid.remote(), timeout=GET_S)
    kind, detail = exit_of(int((tmp_path / "pid").read_text()))
    assert kind == "USER_ERROR" and "its constructor raised" in detail and "not today" in detail

    group = placement_group([{"CPU": 1}])
    actor = Plain.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group)).remote()
    pid = ray.get(actor.pid.remote(), timeout=GET_S)
    remove_placement_group(group)
    kind, detail = exit_of(pid)
    assert kind == "INTENDED_SYSTEM_EXIT" and "placement group was removed" in detail

    dropped: Any = Plain.remote()
    pid = ray.get(dropped.pid.remote(), timeout=GET_S)
    del dropped
    kind, detail = exit_of(pid)
    assert kind == "INTENDED_SYSTEM_EXIT" and "all handles to it went out of scope" in detail

    other = Plain.remote()
    pid = ray.get(other.pid.remote(), timeout=GET_S)
    os.kill(pid, signal.SIGTERM)
    kind, detail = exit_of(pid)
    assert kind == "SYSTEM_ERROR" and "SIGTERM" in detail


def test_tasks_that_ran_when_their_program_was_killed_are_listed_as_failed(
    ray: ModuleType, tmp_path: Path
) -> None:
    program = """
        import sys, time
        ray.init(address=sys.argv[1])

        @ray.remote
        def child():
            time.sleep(1000)

        @ray.remote
        def parent(begun):
            ref = child.remote()
            open(begun, "w").close()
            time.sleep(1000)  # a get() could run the child in this process

        ray.get(parent.remote(sys.argv[2]))
    """
    begun = tmp_path / "begun"
    address = ray.get_runtime_context().gcs_address
    with drivers.running(program, address, str(begun)) as driver:
        await_true(begun.exists, "the parent")
        await_true(lambda: states_of("child") == [("RUNNING", None)], "the child")
        driver.kill(signal.SIGKILL)
    for name in ("parent", "child"):
        await_true(lambda name=name: states_of(name) == [("FAILED", "WORKER_DIED")], f"the end of {name}")
