"""Actors that die and come back: restarts, calls made again, their order, and the errors in between."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import sundog
from sundog.exceptions import ActorDiedError, ActorUnavailableError, RayActorError, WorkerCrashedError
from tests.integration.gates import await_file, await_true

GET_S = 120


def make_phoenix(ray: ModuleType, folder: Path, **options: Any) -> Any:
    """An actor that notes what it runs in a file, which survives it."""

    @ray.remote(**options)
    class Phoenix:
        def __init__(self, start: int = 0) -> None:
            self.value = start
            with (folder / "lives").open("a") as file:
                file.write(f"{os.getpid()}\n")

        def add(self) -> int:
            self.value += 1
            return self.value

        def pid(self) -> int:
            return os.getpid()

        def reconstructed(self) -> bool:
            return bool(sundog.get_runtime_context().was_current_actor_reconstructed)

        def note(self, number: int) -> int:
            with (folder / "notes").open("a") as file:
                file.write(f"{number}\n")
            return number

        def die(self) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        def die_once(self, name: str) -> int:
            marker = folder / name
            if not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return int(sundog.get_runtime_context().get_attempt_number())

        def hold(self, name: str) -> int:
            (folder / f"{name}-begun").touch()
            await_file(folder / name)
            return os.getpid()

    return Phoenix


def lines(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()]


def patient(method: Any) -> Any:
    """The method called so that the call waits for the actor's next life, if it is between two."""
    return method.options(max_task_retries=-1)


# ---------------------------------------------------------------------- death and restart
def test_a_killed_actor_without_restarts_is_dead_with_its_signal(ray: ModuleType, tmp_path: Path) -> None:
    phoenix = make_phoenix(ray, tmp_path, max_restarts=0).remote()
    pid = ray.get(phoenix.pid.remote(), timeout=GET_S)
    held = phoenix.hold.remote("gate")
    await_true((tmp_path / "gate-begun").exists, "the call")
    os.kill(pid, signal.SIGKILL)
    for ref in (held, phoenix.add.remote()):
        with pytest.raises(ActorDiedError, match="SIGKILL") as caught:
            ray.get(ref, timeout=GET_S)
        assert caught.value.signal == signal.SIGKILL
        assert caught.value.actor_id == phoenix._actor_id.hex()
        assert not isinstance(caught.value, ActorUnavailableError)


def test_a_restarted_actor_is_constructed_anew_and_says_so(ray: ModuleType, tmp_path: Path) -> None:
    phoenix = make_phoenix(ray, tmp_path, max_restarts=1).remote(10)
    assert ray.get([phoenix.add.remote(), phoenix.add.remote()], timeout=GET_S) == [11, 12]
    assert ray.get(phoenix.reconstructed.remote()) is False
    first = ray.get(phoenix.pid.remote())
    os.kill(first, signal.SIGKILL)
    await_true(lambda: len(lines(tmp_path / "lives")) == 2, "the second life")
    assert ray.get(patient(phoenix.add).remote(), timeout=GET_S) == 11
    assert ray.get(phoenix.reconstructed.remote()) is True
    second = ray.get(phoenix.pid.remote())
    assert second != first
    os.kill(second, signal.SIGKILL)
    with pytest.raises(RayActorError):
        # The kill may be noticed by this call or by the one after it; then there are no restarts left.
        ray.get(phoenix.hold.remote("never"), timeout=GET_S)
    with pytest.raises(ActorDiedError):
        ray.get(phoenix.add.remote(), timeout=GET_S)


def test_calls_without_retries_end_with_the_life_that_they_were_made_to(
    ray: ModuleType, tmp_path: Path
) -> None:
    phoenix = make_phoenix(ray, tmp_path, max_restarts=1).remote()
    pid = ray.get(phoenix.pid.remote(), timeout=GET_S)
    held = phoenix.hold.remote("gate")
    await_true((tmp_path / "gate-begun").exists, "the call")
    behind = [phoenix.add.remote() for _ in range(3)]
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ActorUnavailableError, match="may or may not have run"):
        ray.get(held, timeout=GET_S)
    for ref in behind:
        with pytest.raises(ActorUnavailableError, match="had not begun, and will not run"):
            ray.get(ref, timeout=GET_S)
    await_true(lambda: len(lines(tmp_path / "lives")) == 2, "the second life")
    assert ray.get(patient(phoenix.add).remote(), timeout=GET_S) == 1, "no call ran in between"


def test_a_call_made_between_two_lives_is_unavailable_at_once_unless_it_may_be_retried(
    ray: ModuleType, tmp_path: Path
) -> None:
    @ray.remote(max_restarts=1)
    class Slow:
        def __init__(self) -> None:
            if sundog.get_runtime_context().was_current_actor_reconstructed:
                await_file(tmp_path / "gate")

        def pid(self) -> int:
            return os.getpid()

        def hold(self) -> None:
            (tmp_path / "begun").touch()
            await_file(tmp_path / "never")

        def note(self, number: int) -> int:
            with (tmp_path / "notes").open("a") as file:
                file.write(f"{number}\n")
            return number

    slow = Slow.remote()
    pid = ray.get(slow.pid.remote(), timeout=GET_S)
    held = slow.hold.remote()
    await_true((tmp_path / "begun").exists, "the call")
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ActorUnavailableError, match="SIGKILL"):
        ray.get(held, timeout=GET_S)
    waiting = patient(slow.note).remote(1)
    with pytest.raises(ActorUnavailableError, match="will not run") as caught:
        ray.get(slow.note.remote(2), timeout=GET_S)
    assert caught.value.actor_id == slow._actor_id.hex()
    assert ray.wait([waiting], timeout=0)[1] == [waiting]
    (tmp_path / "gate").touch()
    assert ray.get(waiting, timeout=GET_S) == 1
    assert ray.get(slow.note.remote(3), timeout=GET_S) == 3
    assert lines(tmp_path / "notes") == [1, 3]


def test_an_actor_restarts_for_ever_when_told_to(ray: ModuleType, tmp_path: Path) -> None:
    phoenix = make_phoenix(ray, tmp_path, max_restarts=-1).remote()
    for _ in range(4):
        with pytest.raises(ActorUnavailableError):
            ray.get(phoenix.die.remote(), timeout=GET_S)
        ray.get(patient(phoenix.pid).remote(), timeout=GET_S)
    assert ray.get(phoenix.add.remote(), timeout=GET_S) == 1
    assert len(set(lines(tmp_path / "lives"))) == 5


def test_a_constructor_that_fails_at_a_restart_ends_the_actor(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote(max_restarts=-1)
    class Once:
        def __init__(self) -> None:
            if sundog.get_runtime_context().was_current_actor_reconstructed:
                raise ValueError("cannot be made twice")

        def die(self) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

    once = Once.remote()
    with pytest.raises(RayActorError):
        ray.get(once.die.remote(), timeout=GET_S)
    with pytest.raises(ActorDiedError, match="cannot be made twice"):
        ray.get(patient(once.die).remote(), timeout=GET_S)


def test_an_actor_killed_in_its_constructor_restarts(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote(max_restarts=1)
    class Stumbling:
        def __init__(self) -> None:
            if not sundog.get_runtime_context().was_current_actor_reconstructed:
                os.kill(os.getpid(), signal.SIGKILL)

        def ok(self) -> str:
            return "up"

    assert ray.get(patient(Stumbling.remote().ok).remote(), timeout=GET_S) == "up"


# ---------------------------------------------------------------------- calls made again
def test_max_task_retries_makes_the_lost_call_again(ray: ModuleType, tmp_path: Path) -> None:
    phoenix = make_phoenix(ray, tmp_path, max_restarts=2, max_task_retries=1).remote()
    assert ray.get(phoenix.die_once.remote("marker"), timeout=GET_S) == 1
    with pytest.raises(RayActorError):
        ray.get(phoenix.die.remote(), timeout=GET_S)  # dies at its first try and at its second


def test_method_options_choose_the_retries_of_one_call(ray: ModuleType, tmp_path: Path) -> None:
    phoenix = make_phoenix(ray, tmp_path, max_restarts=-1).remote()
    with pytest.raises(ActorUnavailableError):
        ray.get(phoenix.die_once.remote("a"), timeout=GET_S)
    again = phoenix.die_once.options(max_task_retries=-1)
    assert ray.get(again.remote("b"), timeout=GET_S) == 1


def test_calls_keep_their_order_across_restarts(ray: ModuleType, tmp_path: Path) -> None:
    phoenix = make_phoenix(ray, tmp_path, max_restarts=-1, max_task_retries=-1).remote()
    refs: list[Any] = []
    for number in range(200):
        refs.append(phoenix.note.remote(number))
        if number in (50, 120):
            phoenix.die_once.remote(f"death-{number}")
    assert ray.get(refs, timeout=GET_S) == list(range(200))
    notes = lines(tmp_path / "notes")
    firsts = list(dict.fromkeys(notes))
    assert firsts == list(range(200)), "each call begins after those made before it"
    assert len(lines(tmp_path / "lives")) == 3


def test_without_retries_no_call_runs_twice(ray: ModuleType, tmp_path: Path) -> None:
    phoenix = make_phoenix(ray, tmp_path, max_restarts=-1).remote()
    refs = []
    for number in range(150):
        refs.append(phoenix.note.remote(number))
        if number % 50 == 25:
            phoenix.die_once.remote(f"death-{number}")
    for ref in refs:
        try:
            ray.get(ref, timeout=GET_S)
        except ActorUnavailableError:
            pass
    notes = lines(tmp_path / "notes")
    assert len(notes) == len(set(notes))
    assert notes == sorted(notes)


def test_another_callers_calls_survive_a_restart_too(ray: ModuleType, tmp_path: Path) -> None:
    phoenix = make_phoenix(ray, tmp_path, max_restarts=-1, max_task_retries=-1).remote()

    @ray.remote
    def caller(handle: Any, base: int) -> list[int]:
        return list(sundog.get([handle.note.remote(base + number) for number in range(50)]))

    others = [caller.remote(phoenix, 1000), caller.remote(phoenix, 2000)]
    death = phoenix.die_once.remote("death")
    assert ray.get(death, timeout=GET_S) == 1
    assert ray.get(others, timeout=GET_S) == [list(range(base, base + 50)) for base in (1000, 2000)]


def test_a_call_that_had_begun_in_another_group_is_not_made_twice(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote(max_restarts=1, concurrency_groups={"a": 1, "b": 1})
    class Groups:
        def hold(self, name: str) -> None:
            with (tmp_path / f"{name}-runs").open("a") as file:
                file.write("1 ")
            (tmp_path / f"{name}-begun").touch()
            await_file(tmp_path / name)

        def pid(self) -> int:
            return os.getpid()

    groups = Groups.remote()
    pid = ray.get(groups.pid.remote(), timeout=GET_S)
    in_a, in_b = (groups.hold.options(concurrency_group=name) for name in "ab")
    first, behind, other = in_a.remote("first"), in_a.remote("behind"), in_b.remote("other")
    await_true((tmp_path / "other-begun").exists, "the call in group b")
    (tmp_path / "first").touch()
    ray.get(first, timeout=GET_S)
    await_true((tmp_path / "behind-begun").exists, "the second call in group a, which began last")
    os.kill(pid, signal.SIGKILL)
    for ref in (behind, other):
        with pytest.raises(ActorUnavailableError):
            ray.get(ref, timeout=GET_S)
    assert ray.get(patient(groups.pid).remote(), timeout=GET_S) != pid
    assert lines(tmp_path / "other-runs") == lines(tmp_path / "behind-runs") == [1]


def test_calls_with_retries_that_wait_behind_another_caller_run_in_the_next_life(
    ray: ModuleType, tmp_path: Path
) -> None:
    phoenix = make_phoenix(ray, tmp_path, max_restarts=1).remote()
    pid = ray.get(phoenix.pid.remote(), timeout=GET_S)

    @ray.remote
    def occupy(handle: Any) -> None:
        sundog.get(handle.hold.remote("gate"))

    busy = occupy.remote(phoenix)
    await_true((tmp_path / "gate-begun").exists, "the call of the other caller")
    mine = [patient(phoenix.add).remote() for _ in range(3)]
    os.kill(pid, signal.SIGKILL)
    assert ray.get(mine, timeout=GET_S) == [1, 2, 3]
    with pytest.raises(ActorUnavailableError):
        ray.get(busy, timeout=GET_S)


# ---------------------------------------------------------------------- kill
def test_kill_without_no_restart_brings_the_actor_back(ray: ModuleType, tmp_path: Path) -> None:
    phoenix = make_phoenix(ray, tmp_path, max_restarts=1).remote(5)
    assert ray.get(phoenix.add.remote(), timeout=GET_S) == 6
    ray.kill(phoenix, no_restart=False)
    await_true(lambda: len(lines(tmp_path / "lives")) == 2, "the second life")
    assert ray.get(phoenix.add.options(max_task_retries=3).remote(), timeout=GET_S) == 6
    ray.kill(phoenix, no_restart=False)
    with pytest.raises(ActorDiedError, match="kill"):
        ray.get(phoenix.hold.remote("never"), timeout=GET_S)


def test_kill_ends_an_actor_that_could_restart(ray: ModuleType, tmp_path: Path) -> None:
    phoenix = make_phoenix(ray, tmp_path, max_restarts=-1, max_task_retries=-1).remote()
    held = phoenix.hold.remote("gate")
    await_true((tmp_path / "gate-begun").exists, "the call")
    ray.kill(phoenix)
    with pytest.raises(ActorDiedError, match="kill"):
        ray.get(held, timeout=GET_S)
    assert len(lines(tmp_path / "lives")) == 1


# ---------------------------------------------------------------------- what restarts need
def test_a_restart_gets_its_large_and_ref_arguments_again(ray: ModuleType) -> None:
    @ray.remote(max_restarts=2)
    class Model:
        def __init__(self, weights: Any, bias: Any, inside: dict[str, Any]) -> None:
            self.weights, self.bias, self.inside = weights, bias, inside

        def total(self) -> float:
            return float(self.weights.sum() + self.bias.sum() + sundog.get(self.inside["ref"]).sum())

        def die(self) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

    @ray.remote
    def make() -> Any:
        return np.ones(100_000)

    model = Model.remote(np.full(200_000, 2.0), make.remote(), {"ref": ray.put(np.full(50_000, 4.0))})
    for _ in range(2):
        assert ray.get(patient(model.total).remote(), timeout=GET_S) == 700_000
        with pytest.raises(ActorUnavailableError):
            ray.get(model.die.remote(), timeout=GET_S)
    assert ray.get(patient(model.total).remote(), timeout=GET_S) == 700_000


def test_a_restart_keeps_the_actors_name_and_resources(ray: ModuleType, tmp_path: Path) -> None:
    cls = make_phoenix(ray, tmp_path, max_restarts=1, num_cpus=3, name="bird")
    phoenix = cls.remote()
    with pytest.raises(ActorUnavailableError):
        ray.get(phoenix.die.remote(), timeout=GET_S)
    assert ray.get(patient(ray.get_actor("bird").add).remote(), timeout=GET_S) == 1
    assert ray.available_resources()["CPU"] == 1
    ray.kill(phoenix)
    await_true(lambda: ray.available_resources().get("CPU") == 4, "its CPUs")


def test_an_actor_ends_with_the_worker_that_created_it(ray: ModuleType, tmp_path: Path) -> None:
    cls = make_phoenix(ray, tmp_path, max_restarts=-1)

    @ray.remote
    class Creator:
        def __init__(self) -> None:
            self.child = cls.remote()

        def handle(self) -> Any:
            return self.child

        def die(self) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

    creator = Creator.remote()
    child = ray.get(creator.handle.remote(), timeout=GET_S)
    assert ray.get(child.add.remote(), timeout=GET_S) == 1
    with pytest.raises(ActorDiedError):
        ray.get(creator.die.remote(), timeout=GET_S)
    with pytest.raises(ActorDiedError, match="created it is gone"):
        ray.get(child.hold.remote("never"), timeout=GET_S)


def test_a_restart_does_not_disturb_a_task_that_waits_for_it(ray: ModuleType, tmp_path: Path) -> None:
    phoenix = make_phoenix(ray, tmp_path, max_restarts=1, max_task_retries=1).remote()

    @ray.remote(max_retries=0)
    def ask(handle: Any) -> int:
        return int(sundog.get(handle.die_once.remote("marker")))

    assert ray.get(ask.remote(phoenix), timeout=GET_S) == 1
    with pytest.raises(WorkerCrashedError):
        ray.get(
            ray.remote(max_retries=0)(lambda: os.kill(os.getpid(), signal.SIGKILL)).remote(), timeout=GET_S
        )
