"""Deaths of real workers, each told by its one cause and the evidence for it."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.integration import drivers
from tests.integration.gates import await_file, await_true

_CGROUPS = Path("/sys/fs/cgroup/memory")
_LIMIT = 256 << 20

Start = Callable[..., ModuleType]


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A memory cgroup (v1) of 256 MiB, empty; removed after the test."""
    path = _CGROUPS / f"sundog-test-{secrets.token_hex(4)}"
    try:
        path.mkdir()
        (path / "memory.limit_in_bytes").write_text(str(_LIMIT))
        with contextlib.suppress(OSError):  # there is none without swap accounting
            (path / "memory.memsw.limit_in_bytes").write_text(str(_LIMIT))
    except OSError as error:
        with contextlib.suppress(OSError):
            path.rmdir()
        pytest.skip(f"no memory cgroup (v1) can be made here: {error}")
    yield path
    await_true(lambda: remove_empty(path), f"{path} being empty: the end of its last process")


def remove_empty(cgroup: Path) -> bool:
    try:
        cgroup.rmdir()
    except OSError:  # busy
        return False
    return True


def test_an_exit_code_comes_with_the_last_words_of_the_process(ray: ModuleType) -> None:
    @ray.remote(max_retries=0)
    def leave() -> None:
        os.write(2, b"no licence left\n")
        os._exit(41)

    with pytest.raises(ray.exceptions.WorkerCrashedError) as caught:
        ray.get(leave.remote())
    error = caught.value
    assert (error.exit_code, error.signal, error.attempt) == (41, None, 1)
    assert "exited by itself with code 41" in str(error)
    assert "no licence left" in str(error)


@pytest.mark.parametrize(
    ("number", "named"), [(signal.SIGSEGV, "Segmentation fault"), (signal.SIGABRT, "Aborted")]
)
def test_a_fault_is_shown_with_the_line_it_happened_in(
    ray: ModuleType, number: signal.Signals, named: str
) -> None:
    @ray.remote(max_retries=0)
    def crash() -> None:
        signal.raise_signal(number)

    with pytest.raises(ray.exceptions.WorkerCrashedError) as caught:
        ray.get(crash.remote())
    text = str(caught.value)
    assert caught.value.signal == number
    assert f"it crashed with {number.name}." in text
    assert f"Fatal Python error: {named}" in text
    assert f'test_causes.py", line {crash._function.__code__.co_firstlineno + 2} in crash' in text
    assert "/worker/" not in text.split("Its output")[0]


def test_an_actor_that_faults_shows_the_line_too(ray: ModuleType) -> None:
    @ray.remote
    class Fragile:
        def crash(self) -> None:
            signal.raise_signal(signal.SIGSEGV)

    fragile = Fragile.remote()
    with pytest.raises(
        ray.exceptions.ActorDiedError, match=r"Fatal Python error: Segmentation fault"
    ) as caught:
        ray.get(fragile.crash.remote())
    assert caught.value.signal == signal.SIGSEGV
    assert "in crash" in str(caught.value)


def test_the_kernels_kill_for_memory_is_an_out_of_memory_error(cgroup: Path, leak_check: Path) -> None:
    program = f"""
        import atexit, os, subprocess
        def offer(pid):
            with open(f"/proc/{{pid}}/oom_score_adj", "w") as file:
                file.write("1000")  # the kernel shall take this process, not the driver

        with open({str(cgroup / "cgroup.procs")!r}, "w") as file:
            file.write(str(os.getpid()))
        # On a busy machine the kernel takes a second process if the memory of the first one is not free in time.
        others = [subprocess.Popen(["sleep", "600"]) for _ in range(4)]
        atexit.register(lambda: [other.kill() for other in others])
        for other in others:
            offer(other.pid)
        ray.init(num_cpus=1, _system_config={{"memory_monitor_refresh_ms": 0}})

        @ray.remote(max_retries=0)
        def eat():
            offer(os.getpid())
            return len(bytearray({2 * _LIMIT}))

        @ray.remote
        class Eater:
            def eat(self):
                return eat._function()

        for call in (eat.remote, Eater.remote().eat.remote):
            try:
                ray.get(call())
            except ray.exceptions.OutOfMemoryError as error:
                print(error.signal, error.limit_bytes, error.after > error.before, error.peak_bytes > 0)
                print(str(error).replace(chr(10), " "))
        ray.shutdown()
    """
    lines = drivers.run(program)
    assert lines[0::2] == [f"9 {_LIMIT} True True"] * 2
    for line in lines[1::2]:
        assert "the kernel killed it because memory ran out within a limit of 268.4 MB" in line
        assert str(cgroup / "memory.oom_control") in line


def test_the_kernels_kill_in_a_group_of_a_tasks_own_is_an_out_of_memory_error(
    ray_session: Start, cgroup: Path
) -> None:
    ray = ray_session(num_cpus=1, _system_config={"memory_monitor_refresh_ms": 0})

    @ray.remote
    class Eater:
        def join(self) -> None:
            (cgroup / "cgroup.procs").write_text(str(os.getpid()))

        def eat(self) -> int:
            return len(bytearray(2 * _LIMIT))

    texts: list[str] = []

    def is_told() -> bool:
        """Whether the caller is told of the kill. The node has to have looked at the actor's group before."""
        eater = Eater.remote()
        ray.get(eater.join.remote())
        time.sleep(1.0)  # no event tells that the node has looked, so this is tried again if it was too short
        try:
            ray.get(eater.eat.remote())
        except ray.exceptions.OutOfMemoryError as error:
            texts.append(str(error))
        except ray.exceptions.ActorDiedError as error:
            assert "It may have been this one, in a control group of its own" in str(error)
        return bool(texts)

    await_true(is_told, "a kill after a look of the node")
    assert "the kernel killed it because memory ran out within a limit of 268.4 MB" in texts[-1]
    assert str(cgroup / "memory.oom_control") in texts[-1]


def test_a_timeout_says_what_the_object_waits_for(ray_session: Start, tmp_path: Path) -> None:
    ray = ray_session(num_cpus=1)

    @ray.remote
    def sleep(seconds: float, *_: object) -> None:
        (tmp_path / "begun").touch()
        time.sleep(seconds)

    @ray.remote
    def pass_on(refs: list[object]) -> list[object]:
        return [sleep.options(num_cpus=0).remote(1e6)]

    running = sleep.remote(1e6)
    await_file(tmp_path / "begun")
    cases = [
        (running, r"the result of .*sleep\(\), which was sent to the process with pid \d+"),
        (sleep.options(num_cpus=0.5).remote(1e6), r"sleep\(\), which waits for a worker"),
        (sleep.remote(0, running), r"sleep\(\), which waits for its arguments"),
        (
            ray.get(pass_on.options(num_cpus=0).remote([]))[0],
            r"which belongs to process \w{16} and is not ready",
        ),
    ]
    for ref, words in cases:
        with pytest.raises(ray.exceptions.GetTimeoutError, match=words) as caught:
            ray.get([ref], timeout=0.05)
        assert (caught.value.timeout_s, caught.value.pending) == (0.05, [ref.hex()])
