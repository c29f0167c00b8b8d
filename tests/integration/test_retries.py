"""Attempts: their delays, their numbers in the task and in its record, and what may happen between two of them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import sundog
from sundog.exceptions import ActorDiedError, TaskCancelledError, WorkerCrashedError
from sundog.state import backoff
from sundog.util import state
from tests.integration.gates import await_true

GET_S = 120


class Hiccup(Exception):
    """Of a module that the node cannot import."""


def note(path: Path) -> int:
    """Record an attempt with its moment; gives its number."""
    attempt = int(sundog.get_runtime_context().get_attempt_number())
    with path.open("a") as file:
        file.write(f"{attempt} {time.monotonic()}\n")
    return attempt


def attempts(path: Path) -> list[tuple[int, float]]:
    rows = (line.split() for line in path.read_text().splitlines()) if path.exists() else ()
    return [(int(number), float(moment)) for number, moment in rows]


@pytest.mark.parametrize("how", ["exception", "crash"])
def test_attempts_are_numbered_and_from_the_second_retry_on_delayed(
    ray: ModuleType, tmp_path: Path, how: str
) -> None:
    @ray.remote(max_retries=3, retry_exceptions=True)
    def fail_thrice() -> int:
        attempt = note(tmp_path / "attempts")
        if attempt < 3 and how == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        if attempt < 3:
            raise ValueError(f"attempt {attempt}")
        return attempt

    assert ray.get(fail_thrice.remote(), timeout=GET_S) == 3
    made = attempts(tmp_path / "attempts")
    assert [number for number, _ in made] == [0, 1, 2, 3]
    least_s = backoff.SCHEDULES[how].base_s / 2
    assert made[2][1] - made[1][1] >= least_s
    assert made[3][1] - made[2][1] >= 2 * least_s


def test_each_attempt_that_raised_has_a_record_of_its_own(ray: ModuleType) -> None:
    @ray.remote(max_retries=1, retry_exceptions=[KeyError])
    def fail_once() -> None:
        if sundog.get_runtime_context().get_attempt_number() == 0:
            raise KeyError("once")

    @ray.remote
    class Calls:
        @sundog.method(max_task_retries=1, retry_exceptions=True)
        async def fail_once(self) -> None:
            if sundog.get_runtime_context().get_attempt_number() == 0:
                raise KeyError("once")

    calls = Calls.remote()
    refs = [fail_once.remote(), calls.fail_once.remote()]
    ray.get(refs, timeout=GET_S)
    for ref in refs:
        rows = state.list_tasks(filters=[("task_id", "=", ref.task_id().hex())])
        assert sorted((row.attempt_number, row.state) for row in rows) == [(0, "FAILED"), (1, "FINISHED")]


def test_a_crash_names_the_attempt_that_was_the_last(ray: ModuleType) -> None:
    @ray.remote(max_retries=1)
    def crash() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(WorkerCrashedError, match="attempt 2") as caught:
        ray.get(crash.remote(), timeout=GET_S)
    assert caught.value.attempt == 2


def test_a_task_that_waits_for_its_next_attempt_is_cancelled(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote(max_retries=-1, retry_exceptions=True)
    def fail() -> None:
        note(tmp_path / "attempts")
        raise ValueError("again")

    ref = fail.remote()
    # By now its delays are longer than what a cancel takes; whichever it hits, that is the end.
    await_true(lambda: len(attempts(tmp_path / "attempts")) >= 5, "the fifth attempt")
    ray.cancel(ref)
    with pytest.raises(TaskCancelledError):
        ray.get(ref, timeout=GET_S)


def test_other_tasks_run_while_one_waits_for_its_next_attempt(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote(max_retries=-1, retry_exceptions=True)
    def fail() -> None:
        if note(tmp_path / "attempts") < 6:
            raise ValueError("again")

    @ray.remote
    def double(value: int) -> int:
        return 2 * value

    failing = fail.remote()
    assert ray.get([double.remote(number) for number in range(50)], timeout=GET_S) == list(range(0, 100, 2))
    ray.get(failing, timeout=GET_S)


def test_a_call_that_waits_for_its_next_attempt_fails_with_its_actor(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote
    class Failing:
        def fail(self) -> None:
            note(tmp_path / "attempts")
            raise ValueError("again")

    failing = Failing.remote()
    ref = failing.fail.options(max_task_retries=-1, retry_exceptions=True).remote()
    await_true(lambda: len(attempts(tmp_path / "attempts")) >= 4, "the fourth attempt")
    ray.kill(failing)
    with pytest.raises(ActorDiedError, match="kill"):
        ray.get(ref, timeout=GET_S)


def test_an_actor_that_dies_in_its_constructor_does_not_restart_in_a_rush(
    ray: ModuleType, tmp_path: Path
) -> None:
    @ray.remote(max_restarts=4, max_task_retries=-1)
    class Doomed:
        def __init__(self) -> None:
            note(tmp_path / "lives")
            os.kill(os.getpid(), signal.SIGKILL)

        def ping(self) -> None: ...

    with pytest.raises(ActorDiedError, match="SIGKILL"):
        ray.get(Doomed.remote().ping.remote(), timeout=GET_S)
    lives: list[Any] = attempts(tmp_path / "lives")
    assert [number for number, _ in lives] == [0, 1, 2, 3, 4]
    assert lives[4][1] - lives[1][1] >= (0.05 + 0.1 + 0.2) / 2


def test_methods_are_retried_for_exceptions_of_the_users_own_modules(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote
    class Flaky:
        @ray.method(max_task_retries=2, retry_exceptions=[Hiccup])
        def call(self) -> int:
            if (attempt := note(tmp_path / "attempts")) < 2:
                raise Hiccup
            return attempt

        def name_and_self(self) -> Any:
            context = sundog.get_runtime_context()
            return context.get_task_name(), context.current_actor

    flaky = Flaky.options(name="flaky").remote()
    assert ray.get(flaky.call.remote(), timeout=GET_S) == 2
    assert ray.get(ray.get_actor("flaky").call.remote(), timeout=GET_S) == 2
    name, itself = ray.get(flaky.name_and_self.remote(), timeout=GET_S)
    assert name == "Flaky.name_and_self"
    assert ray.get(itself.call.remote(), timeout=GET_S) == 2


def test_a_variable_sets_how_often_tasks_are_tried_again_that_do_not_say_it(
    ray_session: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RAY_TASK_MAX_RETRIES", "1")
    ray = ray_session(num_cpus=2, runtime_env={"env_vars": {"RAY_TASK_MAX_RETRIES": "1"}})
    log = tmp_path / "runs"

    @ray.remote
    def dies() -> None:
        with open(log, "a") as file:
            file.write("x")
        os._exit(1)

    @ray.remote
    def parent() -> None:
        ray.get(dies.remote())

    for call, runs in ((dies, 2), (dies.options(max_retries=0), 1), (parent.options(max_retries=0), 2)):
        log.write_text("")
        with pytest.raises(sundog.exceptions.WorkerCrashedError):
            ray.get(call.remote(), timeout=120)
        assert len(log.read_text()) == runs
