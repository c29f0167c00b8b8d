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
SHORT_S = 0.3  # long enough to arrive in the function, on a machine with much else to do


@pytest.fixture
def hasty(ray_session: Callable[..., ModuleType]) -> ModuleType:
    """A session of two CPUs that does not wait long for tasks to stop."""
    return ray_session(num_cpus=2, _system_config={"timeout_grace_s": 0.2})


def late(ray: ModuleType, ref: Any, where: str) -> TaskTimeoutError:
    """The error of a ref whose task ran too long, `where` being in its stack; it is the same after pickling."""
    with pytest.raises(TaskTimeoutError) as caught:
        ray.get(ref, timeout=GET_S)
    error = caught.value
    assert isinstance(error, TimeoutError)
    assert where in error.stack and where in str(error)
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
def test_a_task_that_runs_too_long_is_interrupted_and_its_worker_serves_on(hasty: ModuleType) -> None:
    @hasty.remote(timeout_s=SHORT_S)
    def nap(seconds: float) -> int:
        time.sleep(seconds)
        return os.getpid()

    unhurried = nap.options(timeout_s=GET_S)
    pid = hasty.get(unhurried.remote(0), timeout=GET_S)
    error = late(hasty, nap.remote(LONG_S), "in nap")
    assert (error.timeout_s, error.attempt, error.function_name) == (SHORT_S, 1, nap._name)
    assert not error.goes_on
    assert error.pid == hasty.get(unhurried.remote(0), timeout=GET_S) == pid
    assert hasty.get(nap.options(timeout_s=None).remote(2 * SHORT_S), timeout=GET_S) == pid


def test_a_task_that_does_not_stop_is_ended_with_its_worker(hasty: ModuleType) -> None:
    @hasty.remote(timeout_s=SHORT_S)
    def deaf() -> None:
        deadline = time.monotonic() + LONG_S
        while time.monotonic() < deadline:
            try:
                time.sleep(1)
            except KeyboardInterrupt:
                continue

    error = late(hasty, deaf.remote(), "in deaf")
    assert "killed" in str(error)
    with pytest.raises(ProcessLookupError):
        os.kill(error.pid, 0)  # type: ignore[arg-type]


def test_a_task_that_keeps_python_from_running_is_ended_with_its_stack(hasty: ModuleType) -> None:
    @hasty.remote(timeout_s=SHORT_S)
    def backtrack() -> None:
        re.match(r"(a+)+$", "a" * 40 + "b")

    late(hasty, backtrack.remote(), "in backtrack")


def test_a_late_task_is_tried_again_only_if_its_retry_exceptions_say_so(hasty: ModuleType) -> None:
    # Where a machine is so slow that even a short attempt is late, there is another one.
    @hasty.remote(timeout_s=SHORT_S, max_retries=-1)
    def second() -> int:
        attempt = int(sundog.get_runtime_context().get_attempt_number())
        if attempt == 0:
            time.sleep(LONG_S)
        return attempt

    late(hasty, second.remote(), "in second")
    assert hasty.get(second.options(retry_exceptions=True).remote(), timeout=GET_S) >= 1
    assert hasty.get(second.options(retry_exceptions=[TimeoutError]).remote(), timeout=GET_S) >= 1
    error = late(hasty, second.options(retry_exceptions=[ValueError]).remote(), "in second")
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

    for bound_s in (0.6, 3.0, 15.0):
        late(hasty, parent.options(timeout_s=bound_s).remote(), "in parent")
        if (tmp_path / "child-begun").exists():  # or the machine is too slow for this bound
            break
    await_file(tmp_path / "child-ended")


def test_a_generator_that_runs_too_long_keeps_what_it_has_yielded(hasty: ModuleType) -> None:
    @hasty.remote(timeout_s=1.0)
    def count() -> Any:
        yield from range(3)
        time.sleep(LONG_S)

    refs = list(count.remote())
    assert hasty.get(refs[:3], timeout=GET_S) == [0, 1, 2]
    late(hasty, refs[3], "in count")
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
    assert hasty.get(nap.options(queue_timeout_s=3.0).remote(3.3), timeout=GET_S) == "rested"


# ---------------------------------------------------------------------- actors
class Napper:
    """Methods that take their time, in every way."""

    def nap(self, seconds: float) -> float:
        time.sleep(seconds)
        return seconds

    def deaf(self, path: Path) -> list[Any]:
        while not path.exists():
            try:
                time.sleep(0.01)
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


def test_a_call_that_runs_too_long_is_interrupted_and_its_actor_lives(hasty: ModuleType) -> None:
    napper = hasty.remote(Napper).remote()
    error = late(hasty, napper.nap.options(timeout_s=SHORT_S).remote(LONG_S), "in nap")
    assert error.function_name == "Napper.nap" and not error.goes_on
    assert hasty.get(napper.ping.remote(), timeout=GET_S) == "pong"


def test_a_call_that_does_not_stop_goes_on_unheard_in_its_actor(hasty: ModuleType, tmp_path: Path) -> None:
    napper = hasty.remote(Napper).remote()
    error = late(
        hasty, napper.deaf.options(timeout_s=SHORT_S, max_task_retries=3).remote(tmp_path / "gate"), "in deaf"
    )
    assert error.goes_on
    (tmp_path / "gate").touch()
    # Its late answer, which has a ref in it, comes first and is nobody's.
    assert hasty.get(napper.ping.remote(), timeout=GET_S) == "pong"


def test_method_sets_the_bounds_of_a_method(hasty: ModuleType) -> None:
    @hasty.remote
    class Bounded(Napper):
        @sundog.method(timeout_s=SHORT_S)
        def nap(self, seconds: float) -> float:
            return super().nap(seconds)

    bounded = Bounded.remote()
    late(hasty, bounded.nap.remote(LONG_S), "in nap")
    assert hasty.get(bounded.nap.options(timeout_s=GET_S).remote(0), timeout=GET_S) == 0


def test_a_late_call_in_a_thread_is_answered_in_time(hasty: ModuleType, tmp_path: Path) -> None:
    napper = hasty.remote(max_concurrency=2)(Napper).remote()
    error = late(hasty, napper.hold.options(timeout_s=SHORT_S).remote(tmp_path / "gate"), "in hold")
    assert error.goes_on
    assert hasty.get(napper.ping.remote(), timeout=GET_S) == "pong"
    (tmp_path / "gate").touch()


def test_a_late_coroutine_is_cancelled_where_it_awaits(hasty: ModuleType, tmp_path: Path) -> None:
    napper = hasty.remote(AsyncNapper).remote()
    other = napper.nap.remote(4 * SHORT_S)
    error = late(hasty, napper.nap.options(timeout_s=SHORT_S).remote(LONG_S), "in nap")
    assert not error.goes_on
    assert hasty.get(other, timeout=GET_S) == 4 * SHORT_S
    blocked = napper.block.options(timeout_s=SHORT_S).remote(tmp_path / "gate")
    assert late(hasty, blocked, "in block").goes_on, "it blocks the loop, in which it would be cancelled"
    (tmp_path / "gate").touch()
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
    unbegun(hasty, impatient, "not up yet|other work")
    (tmp_path / "gate").touch()
    assert hasty.get([before, after], timeout=GET_S) == ["pong", "pong"]
