"""A process that is stopped (SIGSTOP), and so says nothing, is not dead: when it continues, work goes on."""

# mypy: disable-error-code="untyped-decorator"
# `ray` is whichever module the fixture gives, so its decorator has no type.
from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest

from sundog.exceptions import GetTimeoutError
from tests.integration import drivers
from tests.integration.gates import await_file, await_true

Start = Callable[..., ModuleType]
STOPPED_S = 1.5
"""Longer than every interval at which anything looks at a process: a second tick, a search for deadlocks."""


@pytest.fixture
def ray(ray_session: Start) -> ModuleType:
    """A sundog whose searches for deadlocks, memory and idle workers all come by while a process is stopped."""
    return ray_session(num_cpus=2, _system_config={"deadlock_check_s": 0.1, "idle_worker_s": 0.5})


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A process that does nothing for the length of a with-block, and for some time at least."""
    os.kill(pid, signal.SIGSTOP)
    try:
        await_true(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, f"process {pid} stopped")
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_stopped_worker_goes_on_with_its_task_which_runs_once(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote(max_retries=3)
    def work() -> int:
        with open(tmp_path / "runs", "a") as file:
            file.write(f"{os.getpid()}\n")
        await_file(tmp_path / "go")
        return os.getpid()

    ref = work.remote()
    await_true(lambda: (tmp_path / "runs").exists() and (tmp_path / "runs").read_text().strip(), "it runs")
    pid = int((tmp_path / "runs").read_text())
    with stopped(pid):
        (tmp_path / "go").touch()
        with pytest.raises(GetTimeoutError):
            ray.get(ref, timeout=STOPPED_S)
    assert ray.get(ref) == pid
    assert (tmp_path / "runs").read_text() == f"{pid}\n"


def test_a_stopped_actor_keeps_its_state_and_answers_in_order(ray: ModuleType) -> None:
    @ray.remote
    class Counter:
        def __init__(self) -> None:
            self.count = 0

        def add(self) -> int:
            self.count += 1
            return self.count

        def pid(self) -> int:
            return os.getpid()

    counter = Counter.remote()
    with stopped(ray.get(counter.pid.remote())):
        refs = [counter.add.remote() for _ in range(100)]
        assert ray.wait(refs, timeout=STOPPED_S)[0] == []
    assert ray.get(refs) == list(range(1, 101))


def test_a_stopped_node_holds_up_only_what_needs_it(ray: ModuleType) -> None:
    @ray.remote
    class Echo:
        def say(self, word: Any) -> Any:
            return word

    @ray.remote
    def double(number: int) -> int:
        return 2 * number

    echo = Echo.remote()
    assert ray.get([echo.say.remote(0), double.remote(1)]) == [0, 2]
    with stopped(drivers.node_pid(os.getpid())):
        late = Echo.remote().say.remote("late")
        assert ray.get([echo.say.remote(number) for number in range(50)]) == list(range(50))
        assert ray.wait([late], timeout=STOPPED_S)[0] == []
    assert ray.get(late) == "late"
    assert ray.get([double.remote(number) for number in range(50)]) == [2 * n for n in range(50)]


def test_a_stopped_zygote_holds_up_only_new_workers(ray: ModuleType) -> None:
    @ray.remote(num_cpus=0)
    class Echo:
        def say(self, word: Any) -> Any:
            return word

    echo = Echo.remote()
    assert ray.get(echo.say.remote(1)) == 1
    with stopped(drivers.zygote_pid(os.getpid())):
        others = [Echo.remote() for _ in range(6)]  # more than there are idle workers
        refs = [other.say.remote(number) for number, other in enumerate(others)]
        assert len(ray.wait(refs, num_returns=6, timeout=STOPPED_S)[0]) < 6
        assert ray.get(echo.say.remote(2)) == 2
    assert ray.get(refs) == list(range(6))


def test_a_stopped_driver_finds_its_results_when_it_continues(tmp_path: Path) -> None:
    program = f"""
        import pathlib, time
        ray.init(num_cpus=2)
        @ray.remote
        def work(number):
            path = pathlib.Path({str(tmp_path)!r})
            if number == 0: (path / "begun").touch()
            while not (path / "go").exists(): time.sleep(0.01)
            return number
        refs = [work.remote(number) for number in range(20)]
        print("now", flush=True)
        print(sum(ray.get(refs)), flush=True)
        """
    with drivers.running(program) as driver:
        assert driver.line() == "now"
        await_file(tmp_path / "begun")
        with stopped(driver.pid):
            (tmp_path / "go").touch()
            _let_time_pass(driver.pid)
        assert driver.line() == "190"
        assert driver.end() == 0


def _let_time_pass(pid: int) -> None:
    """Nothing is to happen, so nothing can be awaited."""
    end = time.monotonic() + STOPPED_S
    while time.monotonic() < end:
        assert psutil.Process(pid).status() == psutil.STATUS_STOPPED
        time.sleep(0.1)
