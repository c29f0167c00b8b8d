"""Bad moments: crashes, forks and abuse inside tasks. The session must still run a task afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import sundog
from sundog.exceptions import RayTaskError, WorkerCrashedError
from tests.integration.gates import await_true
from tests.integration.programs_of_drivers import driver

GET_S = 120


@pytest.fixture
def ray(ray_session: Callable[..., ModuleType]) -> Iterator[ModuleType]:
    """A session that must still run tasks, on every CPU, when the test is over."""
    ray = ray_session(num_cpus=2)
    yield ray
    assert_usable(ray)


def assert_usable(ray: ModuleType) -> None:
    @ray.remote
    def alive(n: int) -> int:
        return n

    assert ray.get([alive.remote(n) for n in range(8)], timeout=GET_S) == list(range(8))
    # A lease may be on its way here or back.
    await_true(lambda: ray.available_resources().get("CPU") == 2, "both CPUs being free")


# ---------------------------------------------------------------------- deaths of workers
def test_os_exit_in_a_task_is_told_with_its_code(ray: ModuleType) -> None:
    @ray.remote(max_retries=0)
    def leave(code: int) -> None:
        os._exit(code)

    for code in (0, 3):
        with pytest.raises(WorkerCrashedError, match=f"code {code}") as caught:
            ray.get(leave.remote(code), timeout=GET_S)
        assert caught.value.exit_code == code
        assert "leave" in str(caught.value)


def test_a_segmentation_fault_shows_the_lines_that_caused_it(ray: ModuleType) -> None:
    @ray.remote(max_retries=0)
    def read_nothing() -> None:
        import ctypes

        ctypes.string_at(0)

    with pytest.raises(WorkerCrashedError, match="SIGSEGV") as caught:
        ray.get(read_nothing.remote(), timeout=GET_S)
    assert caught.value.signal == signal.SIGSEGV
    assert "Segmentation fault" in str(caught.value)
    assert "in read_nothing" in str(caught.value)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGABRT])
def test_a_signal_that_ends_the_worker_is_named(ray: ModuleType, number: signal.Signals) -> None:
    @ray.remote(max_retries=0)
    def suicide() -> None:
        os.kill(os.getpid(), number)
        time.sleep(60)

    with pytest.raises(WorkerCrashedError, match=number.name):
        ray.get(suicide.remote(), timeout=GET_S)


def test_other_tasks_survive_the_crash_of_one(ray: ModuleType) -> None:
    @ray.remote(max_retries=0)
    def work(n: int) -> int:
        if n == 20:
            os._exit(1)
        return n

    refs = [work.remote(n) for n in range(60)]
    for n, ref in enumerate(refs):
        if n == 20:
            with pytest.raises(WorkerCrashedError):
                ray.get(ref, timeout=GET_S)
        else:
            assert ray.get(ref, timeout=GET_S) == n


def test_sys_exit_in_a_task_ends_its_worker_and_is_told_as_that(ray: ModuleType) -> None:
    @ray.remote(max_retries=0)
    def leave(code: Any) -> None:
        sys.exit(code)

    for code, expected in ((0, 0), (2, 2), ("with words", 1)):
        with pytest.raises(WorkerCrashedError, match=r"sys\.exit") as caught:
            ray.get(leave.remote(code), timeout=GET_S)
        assert caught.value.exit_code == expected
        assert "sys.exit(code)" in str(caught.value), "the line that called it"


def test_a_task_that_calls_sys_exit_is_tried_again_in_another_process(
    ray: ModuleType, tmp_path: Path
) -> None:
    @ray.remote(max_retries=2)
    def leave_twice() -> int:
        with (tmp_path / "pids").open("a") as file:
            file.write(f"{os.getpid()}\n")
        if len((tmp_path / "pids").read_text().split()) < 3:
            sys.exit(1)
        return os.getpid()

    last = ray.get(leave_twice.remote(), timeout=GET_S)
    pids = (tmp_path / "pids").read_text().split()
    assert len(set(pids)) == 3
    assert pids[-1] == str(last)


def test_a_keyboard_interrupt_raised_in_a_task_is_an_error_of_the_task(ray: ModuleType) -> None:
    @ray.remote(max_retries=0)
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(RayTaskError, match="KeyboardInterrupt"):
        ray.get(interrupt.remote(), timeout=GET_S)


def test_a_sigint_sent_to_a_worker_does_no_harm(ray: ModuleType) -> None:
    @ray.remote(max_retries=0)
    def poke() -> str:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.02)
        return "unharmed"

    assert ray.get(poke.remote(), timeout=GET_S) == "unharmed"


def test_a_task_may_use_signals_and_timers_of_its_own(ray: ModuleType) -> None:
    @ray.remote
    def alarm() -> list[int]:
        heard: list[int] = []
        before = signal.signal(signal.SIGALRM, lambda number, _: heard.append(number))
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        while not heard:
            time.sleep(0.005)
        signal.signal(signal.SIGALRM, before)
        return heard

    assert ray.get([alarm.remote() for _ in range(3)], timeout=GET_S) == [[signal.SIGALRM]] * 3


# ---------------------------------------------------------------------- forks and threads in tasks
def test_a_task_may_fork(ray: ModuleType) -> None:
    @ray.remote
    def fork() -> tuple[int, bytes]:
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(write, b"child")
            os._exit(5)
        status = os.waitpid(pid, 0)[1]
        return os.waitstatus_to_exitcode(status), os.read(read, 100)

    assert ray.get([fork.remote() for _ in range(4)], timeout=GET_S) == [(5, b"child")] * 4


def test_a_forked_child_that_returns_from_the_task_answers_nobody_twice(ray: ModuleType) -> None:
    @ray.remote
    def fork_and_return() -> int:
        return 0 if os.fork() == 0 else os.getpid()

    @ray.remote
    def pid() -> int:
        return os.getpid()

    for _ in range(3):
        assert ray.get(fork_and_return.remote(), timeout=GET_S) > 0
    assert all(ray.get([pid.remote() for _ in range(20)], timeout=GET_S))


def test_the_api_in_a_forked_child_of_a_task_gives_a_clear_error(ray: ModuleType) -> None:
    @ray.remote
    def fork_and_get() -> str:
        ref = sundog.put(1)
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                sundog.get(ref)
            except BaseException as error:
                os.write(write, f"{type(error).__name__}: {error}".encode())
            os._exit(0)
        os.waitpid(pid, 0)
        return os.read(read, 4000).decode()

    assert "forked" in ray.get(fork_and_get.remote(), timeout=GET_S)


def test_the_api_in_a_forked_child_of_the_driver_gives_a_clear_error(ray: ModuleType) -> None:
    @ray.remote
    def one() -> int:
        return 1

    ref = one.remote()
    assert ray.get(ref, timeout=GET_S) == 1
    calls: list[Callable[[], Any]] = [
        lambda: ray.get(ref),
        lambda: ray.put(1),
        lambda: ray.wait([ref]),
        lambda: one.remote(),
        lambda: ray.cluster_resources(),
    ]
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            for call in calls:
                try:
                    call()
                    os.write(write, b"worked\n")
                except RuntimeError as error:
                    os.write(write, b"clear\n" if "forked" in str(error) else repr(error).encode() + b"\n")
                except BaseException as error:
                    os.write(write, repr(error).encode() + b"\n")
        finally:
            os._exit(0)
    os.close(write)
    assert os.waitpid(pid, 0)[1] == 0
    with os.fdopen(read) as file:
        assert file.read().split("\n")[:-1] == ["clear"] * len(calls)
    assert ray.get(ref, timeout=GET_S) == 1


def test_a_task_may_use_multiprocessing(ray: ModuleType) -> None:
    @ray.remote
    def square_all(method: str) -> list[int]:
        import multiprocessing

        with multiprocessing.get_context(method).Pool(2) as pool:
            return pool.map(abs, [-1, -2, -3])

    assert ray.get(square_all.remote("fork"), timeout=GET_S) == [1, 2, 3]
    assert ray.get(square_all.remote("spawn"), timeout=120) == [1, 2, 3]


def test_a_task_may_run_other_programs(ray: ModuleType) -> None:
    @ray.remote
    def shell() -> str:
        return subprocess.run(["echo", "hello"], capture_output=True, text=True, check=True).stdout

    assert ray.get(shell.remote(), timeout=GET_S) == "hello\n"


def test_threads_may_outlive_their_task(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote
    def leave_threads() -> int:
        def linger() -> None:
            for _ in range(20):
                time.sleep(0.005)
            (tmp_path / "lingered").touch()

        threading.Thread(target=linger, daemon=True).start()
        threading.Thread(target=linger).start()
        return threading.active_count()

    assert ray.get(leave_threads.remote(), timeout=GET_S) >= 2


# ---------------------------------------------------------------------- abuse
@pytest.mark.parametrize("first", [3, 0])
def test_a_task_that_closes_all_its_descriptors_harms_no_other(ray: ModuleType, first: int) -> None:
    @ray.remote(max_retries=0)
    def close_all() -> str:
        os.closerange(first, 4096)
        return "closed"

    @ray.remote
    def fine(n: int) -> int:
        return n

    ref = close_all.remote()
    others = [fine.remote(n) for n in range(20)]
    with pytest.raises(WorkerCrashedError):
        ray.get(ref, timeout=GET_S)
    assert ray.get(others, timeout=GET_S) == list(range(20))


def test_a_recursion_error_is_an_ordinary_error(ray: ModuleType) -> None:
    @ray.remote
    def endless() -> int:
        def again(n: int) -> int:
            return again(n + 1)

        return again(0)

    with pytest.raises(RecursionError):
        ray.get(endless.remote(), timeout=GET_S)


def test_a_hundred_megabytes_of_output_drown_nobody(ray_session: Callable[..., ModuleType]) -> None:
    ray = ray_session(num_cpus=2, log_to_driver=False)

    @ray.remote
    def shout() -> int:
        line = "x" * 999 + "\n"
        for _ in range(100_000):
            sys.stdout.write(line)
        sys.stdout.flush()
        return 100_000

    assert ray.get(shout.remote(), timeout=120) == 100_000
    assert_usable(ray)


def test_much_output_reaches_the_driver_in_order_and_without_loss() -> None:
    body = """
    sundog.init(num_cpus=2)

    @sundog.remote
    def shout():
        for number in range(20_000):
            print(f"line {number} " + "y" * 100)

    sundog.get(shout.remote())
    sundog.shutdown()
    """
    with driver(body) as program:
        out, errors = program.communicate(timeout=120)
    numbers = [int(line.split()[3]) for line in out.splitlines() if "line" in line]
    assert numbers == list(range(20_000)), errors


def test_huge_output_without_a_newline_does_no_harm() -> None:
    body = """
    sundog.init(num_cpus=2)

    @sundog.remote
    def drone():
        import os
        for _ in range(10):
            sys.stdout.write("z" * (1 << 20))
            os.write(2, b"e" * (1 << 20))

    sundog.get(drone.remote())
    assert sundog.get(six.remote()) == 6
    sundog.shutdown()
    """
    with driver(body) as program:
        out, errors = program.communicate(timeout=120)
        assert program.returncode == 0
    # Its size alone: a failing assertion would print all of it.
    missing = 2 * (10 << 20) - out.count("z") - errors.count("e")
    assert missing <= 0


def test_a_task_may_replace_stdout_and_close_it(ray: ModuleType) -> None:
    @ray.remote
    def silence() -> str:
        sys.stdout.close()
        return "closed"

    @ray.remote
    def speak() -> str:
        try:
            print("still here")
        except ValueError:
            return "cannot print"
        return "printed"

    assert ray.get(silence.remote(), timeout=GET_S) == "closed"
    assert set(ray.get([speak.remote() for _ in range(6)], timeout=GET_S)) <= {"printed", "cannot print"}


def test_a_task_that_changes_its_folder_and_environment_still_answers(ray: ModuleType) -> None:
    @ray.remote
    def wander() -> str:
        os.chdir("/")
        os.environ.clear()
        sys.path.clear()
        return os.getcwd()

    assert ray.get([wander.remote() for _ in range(4)], timeout=GET_S) == ["/"] * 4


# ---------------------------------------------------------------------- loops and threads in the driver
def test_a_driver_inside_an_asyncio_loop(ray_session: Callable[..., ModuleType]) -> None:
    @sundog.remote
    def double(x: int) -> int:
        return 2 * x

    async def main() -> list[int]:
        ray_session(num_cpus=2)
        beats = 0

        async def beat() -> None:
            nonlocal beats
            while True:
                beats += 1
                await asyncio.sleep(0.001)

        heart = asyncio.ensure_future(beat())
        found: list[int] = await asyncio.gather(*[double.remote(n) for n in range(50)])
        blocking: list[int] = sundog.get([double.remote(n) for n in range(5)], timeout=GET_S)
        heart.cancel()
        assert beats
        return found + blocking

    assert asyncio.run(main(), debug=True) == [2 * n for n in range(50)] + [2 * n for n in range(5)]
    assert_usable(sundog)


def test_init_in_a_thread_that_is_not_the_main_thread(ray_session: Callable[..., ModuleType]) -> None:
    found: list[Any] = []

    @sundog.remote
    def one() -> int:
        return 1

    def cell() -> None:
        ray_session(num_cpus=2)
        found.append(sundog.get(one.remote(), timeout=GET_S))

    thread = threading.Thread(target=cell)
    thread.start()
    thread.join(120)
    assert found == [1]
    assert sundog.get(one.remote(), timeout=GET_S) == 1
    assert_usable(sundog)
    ending = threading.Thread(target=sundog.shutdown)
    ending.start()
    ending.join(120)
    assert not sundog.is_initialized()
