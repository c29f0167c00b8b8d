"""Logical resources: accounting, GPU ids, threads of numeric libraries, fairness, bounds on processes."""

# mypy: disable-error-code="untyped-decorator"
# `ray` is whichever module the fixture gives, so its decorator has no type.
from __future__ import annotations

import importlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import sundog
from sundog.engines import sessions
from sundog.exceptions import DeadlockError
from tests.integration import drivers
from tests.integration.gates import Gate

GET_S = 120
Start = Callable[..., ModuleType]


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    found = Gate(tmp_path)
    yield found
    found.open()


def await_free(ray: ModuleType, **expected: float) -> None:
    """Resources come back a moment after the result of a task."""

    def matches() -> bool:
        free = ray.available_resources()
        return all(free.get(name, 0) == amount for name, amount in expected.items())

    drivers.await_true(matches, f"{expected} being free")


# ---------------------------------------------------------------------- accounting
def test_a_running_task_holds_what_it_asked_for(ray_session: Start, gate: Gate) -> None:
    ray = ray_session(num_cpus=4, num_gpus=2, resources={"slot": 3})
    before = ray.available_resources()
    assert before["CPU"] == 4 and before["GPU"] == 2 and before["slot"] == 3

    @ray.remote(num_cpus=2, num_gpus=1, memory=100 << 20, resources={"slot": 0.5})
    def hold() -> None:
        gate.enter()

    ref = hold.remote()
    drivers.await_true(gate.inside, "the task's start")
    free = ray.available_resources()
    assert (free["CPU"], free["GPU"], free["slot"]) == (2.0, 1.0, 2.5)
    assert before["memory"] - free["memory"] == 100 << 20
    gate.open()
    ray.get(ref, timeout=120)
    await_free(ray, CPU=4, GPU=2, slot=3, memory=before["memory"])


def test_no_more_tasks_run_than_fit(ray_session: Start, gate: Gate) -> None:
    ray = ray_session(num_cpus=4)

    @ray.remote(num_cpus=1.5)
    def hold() -> int:
        gate.enter()
        return 1

    refs = [hold.remote() for _ in range(5)]
    drivers.await_true(lambda: gate.inside() == 2, "two tasks at work")
    assert ray.wait(refs, timeout=0.2)[0] == []
    assert gate.inside() == 2
    gate.open()
    assert sum(ray.get(refs, timeout=120)) == 5


def test_fractions_share_one_cpu(ray_session: Start, gate: Gate) -> None:
    ray = ray_session(num_cpus=1)

    @ray.remote(num_cpus=0.25)
    def hold() -> int:
        gate.enter()
        return 1

    refs = [hold.remote() for _ in range(4)]
    drivers.await_true(lambda: gate.inside() == 4, "four tasks at work")
    assert "CPU" not in ray.available_resources()
    gate.open()
    assert sum(ray.get(refs, timeout=120)) == 4


def test_an_actor_takes_no_cpu_while_it_lives_unless_told_to(ray_session: Start) -> None:
    ray = ray_session(num_cpus=2)

    @ray.remote
    class Actor:
        def hello(self) -> int:
            return 1

    free = Actor.remote()
    bound = Actor.options(num_cpus=1.5).remote()
    assert ray.get([free.hello.remote(), bound.hello.remote()], timeout=120) == [1, 1]
    await_free(ray, CPU=0.5)
    ray.kill(bound)
    await_free(ray, CPU=2)


def test_resources_of_a_killed_worker_come_back(ray_session: Start, gate: Gate) -> None:
    ray = ray_session(num_cpus=2, resources={"slot": 1})

    @ray.remote(num_cpus=2, resources={"slot": 1}, max_retries=0)
    def die() -> None:
        os._exit(3)

    for _ in range(3):
        with pytest.raises(ray.exceptions.WorkerCrashedError, match="3"):
            ray.get(die.remote(), timeout=120)
    await_free(ray, CPU=2, slot=1)


def test_an_infeasible_request_is_warned_of_and_does_not_block_others(
    ray_session: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    ray = ray_session(num_cpus=1)

    @ray.remote
    def one() -> int:
        return 1

    large = one.options(num_cpus=50).remote()
    assert ray.get(one.remote(), timeout=120) == 1
    with pytest.raises(ray.exceptions.GetTimeoutError):
        ray.get(large, timeout=0.2)
    drivers.await_true(lambda: "50" in capsys.readouterr().err, "the warning")
    ray.cancel(large)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(large, timeout=120)


def test_a_blocked_get_gives_its_cpu_back(ray_session: Start) -> None:
    ray = ray_session(num_cpus=1)

    @ray.remote
    def deep(n: int) -> int:
        return 0 if n == 0 else 1 + int(ray.get(deep.remote(n - 1)))

    assert ray.get(deep.remote(8), timeout=120) == 8
    await_free(ray, CPU=1)


def test_a_blocked_wait_gives_its_cpu_back(ray_session: Start) -> None:
    ray = ray_session(num_cpus=1)

    @ray.remote
    def one() -> int:
        return 1

    @ray.remote
    def outer() -> int:
        done, _ = ray.wait([one.remote() for _ in range(3)], num_returns=3)
        return len(done)

    assert ray.get(outer.remote(), timeout=120) == 3


def test_a_blocked_actor_keeps_the_cpu_that_it_asked_for(ray_session: Start) -> None:
    ray = ray_session(num_cpus=1, _system_config={"deadlock_check_s": 0.1})

    @ray.remote
    def one() -> int:
        return 1

    @ray.remote
    class Waiter:
        def wait_for_one(self) -> int:
            return int(ray.get(one.remote()))

    assert ray.get(Waiter.remote().wait_for_one.remote(), timeout=GET_S) == 1
    with pytest.raises(DeadlockError, match="CPU"):
        ray.get(Waiter.options(num_cpus=1).remote().wait_for_one.remote(), timeout=GET_S)


def test_custom_resources_stay_with_a_blocked_task(ray_session: Start) -> None:
    """Only the CPU is lent: a GPU or a licence is still in use."""
    ray = ray_session(num_cpus=1, resources={"slot": 1})

    @ray.remote
    def free_slots() -> float:
        return float(ray.available_resources().get("slot", 0.0))

    @ray.remote(resources={"slot": 1})
    def outer() -> Any:
        return ray.get(free_slots.remote())

    assert ray.get(outer.remote(), timeout=120) == 0.0


# ---------------------------------------------------------------------- GPUs and threads
def test_whole_gpus_get_ids_of_their_own(ray_session: Start, gate: Gate) -> None:
    ray = ray_session(num_cpus=4, num_gpus=2)

    @ray.remote(num_gpus=1)
    def which(name: str) -> Any:
        gate.enter(name)
        return ray.get_gpu_ids(), os.environ["CUDA_VISIBLE_DEVICES"]

    first, second = which.remote("a"), which.remote("b")
    drivers.await_true(lambda: gate.inside("a") + gate.inside("b") == 2, "both at work")
    gate.open()
    found = ray.get([first, second], timeout=120)
    assert sorted(str(ids[0]) for ids, _ in found) == ["0", "1"]
    assert all(visible == str(ids[0]) for ids, visible in found)


def test_two_gpus_for_one_task_are_both_visible(ray_session: Start) -> None:
    ray = ray_session(num_cpus=1, num_gpus=2)

    @ray.remote(num_gpus=2)
    def which() -> Any:
        return sorted(map(str, ray.get_gpu_ids())), os.environ["CUDA_VISIBLE_DEVICES"]

    assert ray.get(which.remote(), timeout=120) == (["0", "1"], "0,1")


def test_fractions_of_a_gpu_share_its_id(ray_session: Start) -> None:
    ray = ray_session(num_cpus=4, num_gpus=2)

    @ray.remote(num_gpus=0.5)
    class Half:
        def which(self) -> Any:
            return ray.get_gpu_ids()

    actors = [Half.remote() for _ in range(4)]
    ids = [str(each[0]) for each in ray.get([actor.which.remote() for actor in actors], timeout=120)]
    assert sorted(ids) == ["0", "0", "1", "1"]
    assert "GPU" not in ray.available_resources()


def test_a_task_without_gpus_sees_none(ray_session: Start) -> None:
    ray = ray_session(num_cpus=1, num_gpus=1)

    @ray.remote
    def which() -> Any:
        return ray.get_gpu_ids(), os.environ.get("CUDA_VISIBLE_DEVICES")

    @ray.remote(num_gpus=1)
    def gpu() -> Any:
        return ray.get_gpu_ids()

    ids, visible = ray.get(which.remote(), timeout=120)
    assert (ids, visible) == ([], None)
    assert len(ray.get(gpu.remote(), timeout=120)) == 1
    assert ray.get(which.remote(), timeout=120)[0] == []


def test_threads_of_numeric_libraries_follow_num_cpus(ray_session: Start) -> None:
    ray = ray_session(num_cpus=4)

    @ray.remote
    def threads() -> set[str | None]:
        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        return {os.environ.get(name) for name in names}

    assert ray.get(threads.remote(), timeout=120) == {"1"}
    assert ray.get(threads.options(num_cpus=3).remote(), timeout=120) == {"3"}
    assert ray.get(threads.options(num_cpus=0.5).remote(), timeout=120) == {"1"}
    assert ray.get(threads.remote(), timeout=120) == {"1"}


@pytest.mark.parametrize("own", [None, "1"])
def test_libraries_that_a_worker_did_not_load_itself_follow_num_cpus_too(
    ray_session: Start, own: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    importlib.import_module("numpy")  # the driver has it, so the zygote loads it
    if own is not None:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", own)
    ray = ray_session(num_cpus=4)

    @ray.remote
    class Late:
        def threads(self) -> tuple[bool, set[int], int]:
            early = "numpy" in sys.modules
            importlib.import_module("numpy")
            from threadpoolctl import threadpool_info

            blas = {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}
            others = len(os.listdir("/proc/self/task")) - threading.active_count()
            return early, blas, others

    deadline = time.monotonic() + 60
    early = False
    while not early and time.monotonic() < deadline:
        one, two = Late.options(num_cpus=1).remote(), Late.options(num_cpus=2).remote()
        (early, first, others), (_, second, _) = ray.get(
            [one.threads.remote(), two.threads.remote()], timeout=120
        )
        assert (first, second, others) == ({1}, {int(own or 2)}, 0), (
            "no thread waits beside the one that computes"
        )
    assert early, "the zygote had numpy"


def test_a_variable_set_by_the_user_wins_over_num_cpus(ray_session: Start) -> None:
    ray = ray_session(num_cpus=2)

    @ray.remote(runtime_env={"env_vars": {"OMP_NUM_THREADS": "7"}})
    def threads() -> str:
        return os.environ["OMP_NUM_THREADS"]

    assert ray.get(threads.remote(), timeout=120) == "7"


# ---------------------------------------------------------------------- fairness and bounds
def test_a_large_request_is_not_starved_by_many_small_ones(ray_session: Start) -> None:
    ray = ray_session(num_cpus=4)

    @ray.remote(num_cpus=1)
    def small() -> None:
        time.sleep(0.02)

    @ray.remote(num_cpus=4)
    def large() -> str:
        return "ran"

    queue = [small.remote() for _ in range(40)]
    ref = large.remote()
    for _ in range(2000):
        # As fast as they end, new ones come: there is always a small one that would fit.
        done, queue = ray.wait(queue, num_returns=1)
        queue += [small.remote() for _ in done]
        if ray.wait([ref], timeout=0)[0]:
            break
    assert ray.wait([ref], timeout=0)[0], "the large one never ran"


def test_idle_workers_are_collected(ray_session: Start, gate: Gate) -> None:
    ray = ray_session(num_cpus=6, _system_config={"idle_worker_s": 0.2})

    @ray.remote(num_cpus=0)
    def hold() -> int:
        gate.enter()
        return os.getpid()

    refs = [hold.remote() for _ in range(12)]
    drivers.await_true(lambda: gate.inside() == 12, "all of them at work")
    gate.open()
    pids = set(ray.get(refs, timeout=120))
    assert len(pids) == 12
    drivers.await_true(lambda: sum(Path(f"/proc/{pid}").exists() for pid in pids) <= 6, "their end")


def test_an_idle_worker_that_owns_what_others_hold_stays(ray_session: Start) -> None:
    ray = ray_session(num_cpus=1, _system_config={"idle_worker_s": 0.1})

    @ray.remote(num_cpus=0)
    def make(i: int) -> list[Any]:
        time.sleep(0.02)
        return [ray.put(i)]

    refs = [each[0] for each in ray.get([make.remote(i) for i in range(6)], timeout=120)]
    time.sleep(1.5)  # several rounds of collection, each a second apart
    assert ray.get(refs, timeout=120) == list(range(6))


def test_a_burst_starts_no_more_processes_than_cpus(ray_session: Start) -> None:
    ray = ray_session(num_cpus=3)

    @ray.remote
    def pid() -> int:
        return os.getpid()

    pids = set(ray.get([pid.remote() for _ in range(2000)], timeout=120))
    assert 1 <= len(pids) <= 5  # three at a time; one that died or was replaced would be a new one


def test_worker_processes_can_be_limited(ray_session: Start, gate: Gate) -> None:
    ray = ray_session(num_cpus=8, _system_config={"max_worker_processes": 3})

    @ray.remote
    def hold() -> int:
        gate.enter()
        return os.getpid()

    refs = [hold.remote() for _ in range(8)]
    drivers.await_true(lambda: gate.inside() == 3, "three at work")
    assert ray.wait(refs, timeout=0.2)[0] == []
    assert gate.inside() == 3
    gate.open()
    ray.get(refs, timeout=120)


def test_two_drivers_share_the_machine(leak_check: Path) -> None:
    """While one driver keeps an endless queue, another one's short job gets its turns."""
    info = sessions.start_head(num_cpus=2)
    try:
        with drivers.running(
            """
            import time
            ray.init(address="auto")
            @ray.remote
            def busy(): time.sleep(0.02)
            refs = [busy.remote() for _ in range(50)]
            ray.wait(refs)
            print("busy", flush=True)
            while True:
                done, refs = ray.wait(refs)
                refs += [busy.remote() for _ in done]
            """
        ) as other:
            assert other.line() == "busy"
            with sundog.init(address="auto"):

                @sundog.remote
                def mine(i: int) -> int:
                    return i

                for _ in range(3):
                    assert sundog.get([mine.remote(i) for i in range(10)], timeout=120) == list(range(10))
                    sundog.available_resources()  # gives the leases back: start anew each time
            assert other.process.poll() is None
    finally:
        sessions.stop_session(info)
