"""`timeout_s` and `queue_timeout_s`: of tasks, and of calls of every kind of actor."""

from __future__ import annotations

import asyncio
import os
import pickle
import re
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import sundog
from sundog.exceptions import TaskQueueTimeoutError, TaskTimeoutError
from tests.integration.gates import await_file

GET_S = 120
LONG_S = 600  # longer than any test may take: what is ended shows by not lasting that long
SHORT_S = 0.3
BOUNDS_S = (SHORT_S, 3.0, 20.0)
"""One after the other, until it is long enough to arrive in the function: the time to load it counts, too."""


@pytest.fixture
def hasty(ray_session: Callable[..., ModuleType]) -> ModuleType:
    """A session of two CPUs that does not wait long for tasks to stop."""
    return ray_session(num_cpus=2, _system_config={"timeout_grace_s": 0.2})


@pytest.fixture
def patient(ray_session: Callable[..., ModuleType]) -> ModuleType:
    """A session of one CPU in which whatever stops when it is told to is given the time for it."""
    return ray_session(num_cpus=1, _system_config={"timeout_grace_s": 60.0})


def late(
    ray: ModuleType, begin: Callable[[float], Any], where: str, let_go: Callable[[], None] = lambda: None
) -> TaskTimeoutError:
    """The error of a task that ran too long, `where` being in its stack; it is the same after pickling.

    Args:
        begin: starts the task with a bound, and returns its ref.
        let_go: ends what goes on of a task that had not come to `where` within its bound.
    """
    for bound_s in BOUNDS_S:
        ref = begin(bound_s)
        error = late_ref(ray, ref)
        assert error.timeout_s == bound_s
        if where in error.stack:
            break
        let_go()
    assert where in error.stack and where in str(error)
    return error


def late_ref(ray: ModuleType, ref: Any) -> TaskTimeoutError:
    """The error of a ref whose task ran too long."""
    with pytest.raises(TaskTimeoutError) as caught:
        ray.get(ref, timeout=GET_S)
    error = caught.value
    assert isinstance(error, TimeoutError)
    assert error.task_id == ref.task_id().hex()
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.stack, again.timeout_s) == (str(error), error.stack, error.timeout_s)
    return error


def unbegun(ray: ModuleType, ref: Any, waited_for: str) -> TaskQueueTimeoutError:
    """The error of a ref whose task was not begun in time."""
    with pytest.raises(TaskQueueTimeoutError, match=waited_for) as caught:
        ray.get(ref, timeout=GET_S)
    assert isinstance(caught.value, TimeoutError)
    assert caught.value.task_id == ref.task_id().hex()
    return caught.value


# ---------------------------------------------------------------------- tasks: run time
def test_a_task_that_runs_too_long_is_interrupted_and_its_worker_serves_on(patient: ModuleType) -> None:
    @patient.remote
    def nap(seconds: float) -> int:
        time.sleep(seconds)
        return os.getpid()

    unhurried = nap.options(timeout_s=GET_S)
    pid = patient.get(unhurried.remote(0), timeout=GET_S)
    error = late(patient, lambda bound_s: nap.options(timeout_s=bound_s).remote(LONG_S), "in nap")
    assert (error.attempt, error.function_name) == (1, nap._name)
    assert not error.goes_on
    assert error.pid == patient.get(unhurried.remote(0), timeout=GET_S) == pid
    assert patient.get(nap.options(timeout_s=None).remote(2 * SHORT_S), timeout=GET_S) == pid


def test_a_task_that_does_not_stop_is_ended_with_its_worker(hasty: ModuleType) -> None:
    def wait_long() -> None:
        time.sleep(LONG_S)

    @hasty.remote
    def deaf() -> None:
        while True:
            try:
                wait_long()
            except KeyboardInterrupt:
                continue

    # An interrupt that arrives before `wait_long` is begun may end the task.
    error = late(hasty, lambda bound_s: deaf.options(timeout_s=bound_s).remote(), "in wait_long")
    assert "killed" in str(error)
    with pytest.raises(ProcessLookupError):
        os.kill(error.pid, 0)  # type: ignore[arg-type]


def test_a_task_that_keeps_python_from_running_is_ended_with_its_stack(hasty: ModuleType) -> None:
    @hasty.remote
    def backtrack() -> None:
        re.match(r"(a+)+$", "a" * 40 + "b")

    late(hasty, lambda bound_s: backtrack.options(timeout_s=bound_s).remote(), "in backtrack")


def test_a_late_task_is_tried_again_only_if_its_retry_exceptions_say_so(hasty: ModuleType) -> None:
    # Where a machine is so slow that even a short attempt is late, there is another one.
    @hasty.remote(timeout_s=SHORT_S, max_retries=-1)
    def second() -> int:
        attempt = int(sundog.get_runtime_context().get_attempt_number())
        if attempt == 0:
            time.sleep(LONG_S)
        return attempt

    late(hasty, lambda bound_s: second.options(timeout_s=bound_s).remote(), "in second")
    assert hasty.get(second.options(retry_exceptions=True).remote(), timeout=GET_S) >= 1
    assert hasty.get(second.options(retry_exceptions=[TimeoutError]).remote(), timeout=GET_S) >= 1
    other = second.options(retry_exceptions=[ValueError])
    error = late(hasty, lambda bound_s: other.options(timeout_s=bound_s).remote(), "in second")
    assert error.attempt == 1


def test_a_task_whose_worker_had_to_be_killed_is_tried_again_too(hasty: ModuleType) -> None:
    @hasty.remote(timeout_s=SHORT_S, max_retries=-1, retry_exceptions=[TaskTimeoutError])
    def second() -> int:
        attempt = int(sundog.get_runtime_context().get_attempt_number())
        if attempt == 0:
            re.match(r"(a+)+$", "a" * 40 + "b")
        return attempt

    assert hasty.get(second.remote(), timeout=GET_S) >= 1


def test_a_task_that_waits_in_get_is_ended_with_its_children(hasty: ModuleType, tmp_path: Path) -> None:
    @hasty.remote
    def child() -> None:
        try:
            (tmp_path / "child-begun").touch()
            time.sleep(LONG_S)
        finally:
            (tmp_path / "child-ended").touch()

    @hasty.remote
    def parent() -> None:
        sundog.get(child.remote())

    for bound_s in BOUNDS_S:
        error = late_ref(hasty, parent.options(timeout_s=bound_s).remote())
        if (tmp_path / "child-begun").exists():  # or the machine is too slow for this bound
            break
    assert "in parent" in error.stack
    await_file(tmp_path / "child-ended")


def test_a_generator_that_runs_too_long_keeps_what_it_has_yielded(hasty: ModuleType) -> None:
    @hasty.remote
    def count() -> Any:
        yield from range(3)
        time.sleep(LONG_S)

    for bound_s in BOUNDS_S:
        refs = list(count.options(timeout_s=bound_s).remote())
        if len(refs) == 4:  # or the machine is too slow for this bound
            break
    assert hasty.get(refs[:3], timeout=GET_S) == [0, 1, 2]
    assert "in count" in late_ref(hasty, refs[3]).stack
    assert len(refs) == 4


# ---------------------------------------------------------------------- tasks: before the start
def test_a_task_that_finds_no_worker_is_given_up_and_never_runs(hasty: ModuleType, tmp_path: Path) -> None:
    @hasty.remote(num_cpus=2)
    def hold() -> None:
        (tmp_path / "held").touch()
        await_file(tmp_path / "gate")

    @hasty.remote(num_cpus=2, queue_timeout_s=SHORT_S)
    def mark(name: str) -> str:
        (tmp_path / name).touch()
        return name

    held = hold.remote()
    await_file(tmp_path / "held")
    error = unbegun(hasty, mark.remote("early"), "no worker|other work")
    assert error.queue_timeout_s == SHORT_S
    (tmp_path / "gate").touch()
    hasty.get(held, timeout=GET_S)
    assert hasty.get(mark.options(queue_timeout_s=GET_S).remote("later"), timeout=GET_S) == "later"
    assert not (tmp_path / "early").exists()


def test_a_task_that_waits_for_its_arguments_is_given_up(hasty: ModuleType, tmp_path: Path) -> None:
    @hasty.remote
    def hold() -> int:
        await_file(tmp_path / "gate")
        return 1

    @hasty.remote
    def double(value: int) -> int:
        return 2 * value

    held = hold.remote()
    unbegun(hasty, double.options(queue_timeout_s=SHORT_S).remote(held), held.hex())
    (tmp_path / "gate").touch()
    assert hasty.get(double.remote(held), timeout=GET_S) == 2


def test_a_task_that_has_begun_in_time_may_take_longer(hasty: ModuleType) -> None:
    @hasty.remote
    def nap(seconds: float) -> str:
        time.sleep(seconds)
        return "rested"

    hasty.get(nap.remote(0), timeout=GET_S)  # from here on there is a worker
    for bound_s in BOUNDS_S:
        try:
            found = hasty.get(nap.options(queue_timeout_s=bound_s).remote(bound_s + 0.3), timeout=GET_S)
        except TaskQueueTimeoutError:
            continue  # the machine is too slow to begin it within this bound
        break
    assert found == "rested"


# ---------------------------------------------------------------------- actors
class Napper:
    """Methods that take their time, in every way."""

    def nap(self, seconds: float) -> float:
        time.sleep(seconds)
        return seconds

    def deaf(self, path: Path) -> list[Any]:
        while True:
            try:
                await_file(path)  # an interrupt that arrives before this is begun may end the call
                break
            except KeyboardInterrupt:
                continue
        return [sundog.put("nobody reads this")]

    def hold(self, path: Path) -> None:
        path.with_suffix(".begun").touch()
        await_file(path)

    def ping(self) -> str:
        return "pong"


class AsyncNapper:
    """The same in an event loop."""

    async def nap(self, seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    async def block(self, path: Path) -> None:
        await_file(path)

    async def hold(self, path: Path) -> None:
        path.with_suffix(".begun").touch()
        while not path.exists():
            await asyncio.sleep(0.01)

    async def ping(self) -> str:
        return "pong"


class Reopened:
    """A gate for each of several calls; at most the last one is shut."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._number = folder, 0

    def shut(self) -> Path:
        self._number += 1
        return self._folder / f"gate{self._number}"

    def open(self) -> None:
        (self._folder / f"gate{self._number}").touch()


def test_a_call_that_runs_too_long_is_interrupted_and_its_actor_lives(patient: ModuleType) -> None:
    napper = patient.remote(Napper).remote()
    error = late(patient, lambda bound_s: napper.nap.options(timeout_s=bound_s).remote(LONG_S), "in nap")
    assert error.function_name == "Napper.nap" and not error.goes_on
    assert patient.get(napper.ping.remote(), timeout=GET_S) == "pong"


def test_a_call_that_does_not_stop_goes_on_unheard_in_its_actor(hasty: ModuleType, tmp_path: Path) -> None:
    napper = hasty.remote(Napper).remote()
    gate = Reopened(tmp_path)
    error = late(
        hasty,
        lambda bound_s: napper.deaf.options(timeout_s=bound_s, max_task_retries=3).remote(gate.shut()),
        "in await_file",
        gate.open,
    )
    assert error.goes_on
    gate.open()
    # Its late answer, which has a ref in it, comes first and is nobody's.
    assert hasty.get(napper.ping.remote(), timeout=GET_S) == "pong"


def test_method_sets_the_bounds_of_a_method(patient: ModuleType) -> None:
    @patient.remote
    class Bounded(Napper):
        @sundog.method(timeout_s=SHORT_S)
        def nap(self, seconds: float) -> float:
            return super().nap(seconds)

    bounded = Bounded.remote()
    assert late_ref(patient, bounded.nap.remote(LONG_S)).timeout_s == SHORT_S
    late(patient, lambda bound_s: bounded.nap.options(timeout_s=bound_s).remote(LONG_S), "in nap")
    assert patient.get(bounded.nap.options(timeout_s=GET_S).remote(0), timeout=GET_S) == 0


def test_a_late_call_in_a_thread_is_answered_in_time(hasty: ModuleType, tmp_path: Path) -> None:
    napper = hasty.remote(max_concurrency=2)(Napper).remote()
    gate = Reopened(tmp_path)
    error = late(
        hasty,
        lambda bound_s: napper.hold.options(timeout_s=bound_s).remote(gate.shut()),
        "in hold",
        gate.open,
    )
    assert error.goes_on
    assert hasty.get(napper.ping.remote(), timeout=GET_S) == "pong"
    gate.open()


def test_a_late_coroutine_is_cancelled_where_it_awaits(patient: ModuleType) -> None:
    napper = patient.remote(AsyncNapper).remote()
    other = napper.nap.remote(4 * SHORT_S)
    error = late(patient, lambda bound_s: napper.nap.options(timeout_s=bound_s).remote(LONG_S), "in nap")
    assert not error.goes_on
    assert patient.get(other, timeout=GET_S) == 4 * SHORT_S


def test_a_late_coroutine_that_blocks_its_loop_goes_on(hasty: ModuleType, tmp_path: Path) -> None:
    napper = hasty.remote(AsyncNapper).remote()
    gate = Reopened(tmp_path)
    error = late(
        hasty,
        lambda bound_s: napper.block.options(timeout_s=bound_s).remote(gate.shut()),
        "in block",
        gate.open,
    )
    assert error.goes_on, "it blocks the loop, in which it would be cancelled"
    gate.open()
    assert hasty.get(napper.ping.remote(), timeout=GET_S) == "pong"


@pytest.mark.parametrize(
    ("cls", "options"),
    [(Napper, {}), (Napper, {"max_concurrency": 2}), (AsyncNapper, {"max_concurrency": 2})],
    ids=["sync", "threaded", "asyncio"],
)
def test_a_call_behind_others_is_given_up_with_their_stack(
    hasty: ModuleType, tmp_path: Path, cls: type, options: dict[str, Any]
) -> None:
    napper = (hasty.remote(**options) if options else hasty.remote)(cls).remote()
    held = [
        napper.hold.remote(tmp_path / f"gate{number}") for number in range(options.get("max_concurrency", 1))
    ]
    for number in range(len(held)):
        await_file(tmp_path / f"gate{number}.begun")
    error = unbegun(hasty, napper.ping.options(queue_timeout_s=SHORT_S).remote(), "other work")
    assert "in hold" in error.stack
    for number in range(len(held)):
        (tmp_path / f"gate{number}").touch()
    hasty.get(held, timeout=GET_S)
    assert hasty.get(napper.ping.options(queue_timeout_s=GET_S).remote(), timeout=GET_S) == "pong"


def test_a_call_to_an_actor_that_is_not_up_is_given_up_and_others_are_not(
    hasty: ModuleType, tmp_path: Path
) -> None:
    @hasty.remote
    class Slow(Napper):
        def __init__(self) -> None:
            await_file(tmp_path / "gate")

    slow = Slow.remote()
    before, after = slow.ping.remote(), None
    impatient = slow.ping.options(queue_timeout_s=SHORT_S).remote()
    after = slow.ping.remote()
    unbegun(hasty, impatient, "not started yet|other work")
    (tmp_path / "gate").touch()
    assert hasty.get([before, after], timeout=GET_S) == ["pong", "pong"]
