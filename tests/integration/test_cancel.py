"""Cancelling: tasks and calls that wait, run, sleep, nest, are done, or belong to another process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import sundog
from sundog.exceptions import RayError, RayTaskError, TaskCancelledError, WorkerCrashedError
from tests.integration.cancelling import GET_S, LONG_S, assert_cancelled, make_runner
from tests.integration.gates import await_file, await_true


# ---------------------------------------------------------------------- tasks
@pytest.mark.parametrize("how", ["sleep", "python"])
def test_a_running_task_is_interrupted(ray: ModuleType, tmp_path: Path, how: str) -> None:
    ref = make_runner(ray, tmp_path).remote("run", how)
    await_true((tmp_path / "run").exists, "the task")
    ray.cancel(ref)
    assert_cancelled(ray, ref)
    assert (tmp_path / "run-interrupted").exists()

    @ray.remote
    def after() -> int:
        return 1

    assert ray.get([after.remote() for _ in range(20)], timeout=GET_S) == [1] * 20


def test_queued_tasks_are_cancelled_unrun(ray_session: Callable[..., ModuleType], tmp_path: Path) -> None:
    ray = ray_session(num_cpus=1)
    run = make_runner(ray, tmp_path)
    first = run.remote("first")
    await_true((tmp_path / "first").exists, "the first task")
    others = [run.remote(f"other-{number}") for number in range(5)]
    for ref in others:
        ray.cancel(ref)
    for ref in others:
        assert_cancelled(ray, ref)
    ray.cancel(first)
    assert_cancelled(ray, first)
    assert not list(tmp_path.glob("other-*"))


def test_short_tasks_packed_behind_a_long_one_can_be_cancelled(
    ray_session: Callable[..., ModuleType], tmp_path: Path
) -> None:
    ray = ray_session(num_cpus=1)

    @ray.remote
    def step(name: str) -> str:
        if name == "long":
            (tmp_path / "begun").touch()
            await_file(tmp_path / "gate")
        if name.startswith("unwanted"):
            (tmp_path / name).touch()
        return name

    ray.get([step.remote("warm") for _ in range(300)], timeout=GET_S)
    long = step.remote("long")
    unwanted = [step.remote(f"unwanted-{number}") for number in range(20)]
    wanted = step.remote("wanted")
    await_true((tmp_path / "begun").exists, "the long task")
    for ref in unwanted:
        ray.cancel(ref)
    (tmp_path / "gate").touch()
    assert ray.get([long, wanted], timeout=GET_S) == ["long", "wanted"]
    for ref in unwanted:
        assert_cancelled(ray, ref)
    assert not list(tmp_path.glob("unwanted-*"))


def pack_behind_a_long_task(ray: ModuleType, folder: Path) -> tuple[Any, int, list[Any]]:
    """On one CPU: a task that waits for the file `never`, its process, and twenty that came there in its packet.

    Each of the twenty makes a file `unwanted-*` when it runs. A second attempt of the long one does not wait.
    """

    @ray.remote
    def step(name: str) -> int:
        if name == "long" and not (folder / "begun").exists():
            (folder / "begun").write_text(str(os.getpid()))
            await_file(folder / "never")
        if name.startswith("unwanted"):
            (folder / name).touch()
        return os.getpid()

    @ray.remote
    def hold() -> None:
        (folder / "held").touch()
        await_file(folder / "gate")

    ray.get([step.remote("warm") for _ in range(300)], timeout=GET_S)
    held = hold.remote()
    await_true((folder / "held").exists, "a busy worker: what comes now is packed together")
    step.remote("first")
    long = step.remote("long")
    unwanted = [step.remote(f"unwanted-{number}") for number in range(20)]
    (folder / "gate").touch()
    ray.get(held, timeout=GET_S)
    await_true(lambda: (folder / "begun").exists() and (folder / "begun").read_text(), "the long task")
    pid = int((folder / "begun").read_text())
    return long, pid, unwanted


def test_a_cancelled_task_does_not_run_elsewhere_when_its_worker_dies(
    ray_session: Callable[..., ModuleType], tmp_path: Path
) -> None:
    ray = ray_session(num_cpus=1)
    long, pid, unwanted = pack_behind_a_long_task(ray, tmp_path)
    os.kill(pid, signal.SIGSTOP)  # it has tasks in hand, and will not hear
    for ref in unwanted:
        ray.cancel(ref)
    os.kill(pid, signal.SIGKILL)
    assert ray.get(long, timeout=GET_S) != pid
    for ref in unwanted:
        assert_cancelled(ray, ref)
    assert not list(tmp_path.glob("unwanted-*"))


def test_a_task_that_waits_for_its_arguments_is_cancelled_and_they_go_on(
    ray: ModuleType, tmp_path: Path
) -> None:
    @ray.remote
    def late() -> int:
        await_file(tmp_path / "gate")
        return 1

    @ray.remote
    def use(value: int) -> int:
        (tmp_path / "used").touch()
        return value

    argument = late.remote()
    ref = use.remote(argument)
    after = use.remote(ref)
    ray.cancel(ref)
    assert_cancelled(ray, ref)
    with pytest.raises(TaskCancelledError):
        ray.get(after, timeout=GET_S)
    (tmp_path / "gate").touch()
    assert ray.get(argument, timeout=GET_S) == 1
    assert not (tmp_path / "used").exists()


def test_a_done_task_keeps_its_result(ray: ModuleType) -> None:
    @ray.remote
    def quick() -> int:
        return 4

    ref = quick.remote()
    assert ray.get(ref, timeout=GET_S) == 4
    ray.cancel(ref)
    ray.cancel(ref, force=True)
    assert ray.get(ref) == 4
    ray.cancel(ray.put(3))
    with pytest.raises(TypeError, match="takes a ref"):
        ray.cancel("a ref")


def test_a_cancelled_task_is_not_retried(ray: ModuleType, tmp_path: Path) -> None:
    run = make_runner(ray, tmp_path, max_retries=5, retry_exceptions=True)
    ref = run.remote("run")
    await_true((tmp_path / "run").exists, "the task")
    (tmp_path / "run").unlink()
    ray.cancel(ref)
    assert_cancelled(ray, ref)
    ray.cancel(ref)
    assert not (tmp_path / "run").exists()


def test_force_ends_a_task_that_does_not_listen(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote(max_retries=3)
    def deaf() -> None:
        (tmp_path / f"pid-{os.getpid()}").touch()
        while True:
            try:
                time.sleep(LONG_S)
            except KeyboardInterrupt:
                continue

    ref = deaf.remote()
    await_true(lambda: list(tmp_path.glob("pid-*")), "the task")
    ray.cancel(ref, force=True)
    with pytest.raises((TaskCancelledError, WorkerCrashedError)):
        ray.get(ref, timeout=GET_S)
    (marker,) = tmp_path.glob("pid-*")
    pid = marker.name.removeprefix("pid-")
    await_true(lambda: not os.path.exists(f"/proc/{pid}"), "the end of the worker")


def test_a_task_that_catches_the_interrupt_may_still_answer(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote
    def polite() -> str:
        try:
            (tmp_path / "begun").touch()
            time.sleep(LONG_S)
        except KeyboardInterrupt:
            return "cleaned up"
        return "was not interrupted"

    ref = polite.remote()
    await_true((tmp_path / "begun").exists, "the task")
    ray.cancel(ref)
    assert ray.get(ref, timeout=GET_S) == "cleaned up"


def test_a_task_sees_that_it_is_cancelled(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote
    def watchful() -> None:
        try:
            (tmp_path / "begun").touch()
            time.sleep(LONG_S)
        finally:
            (tmp_path / str(sundog.get_runtime_context().is_canceled())).touch()

    ref = watchful.remote()
    await_true((tmp_path / "begun").exists, "the task")
    ray.cancel(ref)
    assert_cancelled(ray, ref)
    assert (tmp_path / "True").exists()


def test_a_task_blocked_in_get_is_cancelled(ray: ModuleType, tmp_path: Path) -> None:
    run = make_runner(ray, tmp_path)

    @ray.remote
    def parent() -> Any:
        child = run.remote("child")
        (tmp_path / "parent").touch()
        return sundog.get(child)

    ref = parent.remote()
    await_true((tmp_path / "child").exists, "the child")
    ray.cancel(ref, recursive=False)
    assert_cancelled(ray, ref)


def test_many_cancels_at_random_moments_leave_the_session_usable(ray: ModuleType) -> None:
    @ray.remote
    def work(number: int) -> int:
        time.sleep(0.002)
        return number

    for _ in range(5):
        refs = [work.remote(number) for number in range(40)]
        for ref in refs[::2]:
            ray.cancel(ref)
        for number, ref in enumerate(refs):
            try:
                assert ray.get(ref, timeout=GET_S) == number
            except TaskCancelledError:
                assert number % 2 == 0
    assert ray.get([work.remote(number) for number in range(20)], timeout=GET_S) == list(range(20))


def test_force_does_not_kill_the_task_that_runs_before_the_cancelled_one(
    ray_session: Callable[..., ModuleType], tmp_path: Path
) -> None:
    ray = ray_session(num_cpus=1)
    long, pid, unwanted = pack_behind_a_long_task(ray, tmp_path)
    for ref in unwanted:
        ray.cancel(ref, force=True)
    for ref in unwanted:
        assert_cancelled(ray, ref)
    (tmp_path / "never").touch()
    assert ray.get(long, timeout=GET_S) == pid
    assert not list(tmp_path.glob("unwanted-*"))


# ---------------------------------------------------------------------- calls
def make_holder(ray: ModuleType, folder: Path) -> Any:
    @ray.remote
    class Holder:
        def hold(self, name: str) -> str:
            (folder / f"{name}-begun").touch()
            await_true((folder / name).exists, name)
            return name

        def mark(self, name: str) -> str:
            (folder / name).touch()
            return name

    return Holder


def test_queued_calls_of_an_actor_are_cancelled_unrun(ray: ModuleType, tmp_path: Path) -> None:
    holder = make_holder(ray, tmp_path).remote()
    held = holder.hold.remote("gate")
    marks = [holder.mark.remote(f"mark-{number}") for number in range(200)]
    await_true((tmp_path / "gate-begun").exists, "the first call")
    for ref in marks[:150]:
        ray.cancel(ref)
    (tmp_path / "gate").touch()
    assert ray.get([held, *marks[150:]], timeout=GET_S) == [
        "gate",
        *(f"mark-{number}" for number in range(150, 200)),
    ]
    # A cancel does not wait for the worker: one that is still on its way when its call's turn comes is too late.
    ran = [number for number in range(150) if (tmp_path / f"mark-{number}").exists()]
    for number, ref in enumerate(marks[:150]):
        if number in ran:
            with contextlib.suppress(TaskCancelledError):  # interrupted while it ran
                assert ray.get(ref, timeout=GET_S) == f"mark-{number}"
        else:
            assert_cancelled(ray, ref)
    assert len(ran) < 150


def test_calls_to_an_actor_that_is_not_up_yet_are_cancelled_unrun(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote
    class Slow:
        def __init__(self) -> None:
            await_file(tmp_path / "gate")

        def mark(self, name: str) -> str:
            (tmp_path / name).touch()
            return name

    slow = Slow.remote()
    refs = [slow.mark.remote(f"mark-{number}") for number in range(6)]
    ray.cancel(refs[0])
    ray.cancel(refs[3])
    assert_cancelled(ray, refs[0])
    assert_cancelled(ray, refs[3])
    (tmp_path / "gate").touch()
    rest = [refs[number] for number in (1, 2, 4, 5)]
    assert ray.get(rest, timeout=GET_S) == [f"mark-{number}" for number in (1, 2, 4, 5)]
    assert len(list(tmp_path.glob("mark-*"))) == 4


def test_a_call_that_waits_for_its_arguments_lets_those_behind_it_go_when_cancelled(
    ray: ModuleType, tmp_path: Path
) -> None:
    holder = make_holder(ray, tmp_path).remote()

    @ray.remote
    def late() -> str:
        await_file(tmp_path / "gate")
        return "late"

    waiting = holder.mark.remote(late.remote())
    behind = holder.mark.remote("behind")
    ray.cancel(waiting)
    assert_cancelled(ray, waiting)
    assert ray.get(behind, timeout=GET_S) == "behind"
    (tmp_path / "gate").touch()


def test_force_on_a_call_is_refused_and_names_kill(ray: ModuleType, tmp_path: Path) -> None:
    holder = make_holder(ray, tmp_path).remote()
    ref = holder.hold.remote("gate")
    with pytest.raises(ValueError, match="kill"):
        ray.cancel(ref, force=True)
    (tmp_path / "gate").touch()
    assert ray.get(ref, timeout=GET_S) == "gate"


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("end", ["return", "raise"])
def test_a_running_call_is_told_of_its_cancel_and_ends_as_it_likes(
    ray: ModuleType, threads: int, end: str
) -> None:
    @ray.remote(max_concurrency=threads)
    class Asker:
        def ask(self, begun: Path) -> str:
            begun.touch()
            await_true(ray.get_runtime_context().is_canceled, "the cancel")
            if end == "raise":
                raise ValueError("its own")
            return "not heard"

        def ping(self) -> str:
            return "pong"

    asker = Asker.remote()
    with tempfile.TemporaryDirectory() as folder:
        ref = asker.ask.remote(Path(folder) / "begun")
        await_true((Path(folder) / "begun").exists, "the call")
    ray.cancel(ref)
    if end == "return":
        assert_cancelled(ray, ref)
    else:
        with pytest.raises(ValueError, match="its own"):
            ray.get(ref, timeout=GET_S)
    assert ray.get(asker.ping.remote(), timeout=GET_S) == "pong"


def test_is_canceled_is_refused_where_nothing_can_be_told(ray: ModuleType) -> None:
    @ray.remote
    class Asyncio:
        async def ask(self) -> bool:
            return bool(ray.get_runtime_context().is_canceled())

        def ask_plainly(self) -> bool:
            return bool(ray.get_runtime_context().is_canceled())

    actor = Asyncio.remote()
    for ref in (actor.ask.remote(), actor.ask_plainly.remote()):
        with pytest.raises(RuntimeError, match="does not work in calls of an asyncio actor"):
            ray.get(ref, timeout=GET_S)
    with pytest.raises(RuntimeError, match="driver"):
        ray.get_runtime_context().is_canceled()


@pytest.mark.parametrize("end", ["raise", "return", "other"])
def test_the_error_of_a_task_that_was_interrupted_is_both_a_cancel_and_an_error_of_a_task(
    ray: ModuleType, tmp_path: Path, end: str
) -> None:
    @ray.remote
    def run() -> str:
        try:
            (tmp_path / "begun").touch()
            await_true((tmp_path / "never").exists, "never")
        except KeyboardInterrupt:
            if end == "raise":
                raise
            if end == "other":
                raise ValueError("its own") from None
        return "its own"

    ref = run.remote()
    await_true((tmp_path / "begun").exists, "the task")
    ray.cancel(ref)
    if end == "return":
        assert ray.get(ref, timeout=GET_S) == "its own"
    elif end == "other":
        with pytest.raises(ValueError, match="its own"):
            ray.get(ref, timeout=GET_S)
    else:
        assert_cancelled(ray, ref)
        with pytest.raises(RayTaskError, match="in run"):  # and says where it was
            ray.get(ref, timeout=GET_S)


@pytest.mark.parametrize("end", ["raise", "return", "other"])
def test_a_cancelled_coroutine_is_a_cancel_whatever_it_makes_of_it(
    ray: ModuleType, tmp_path: Path, end: str
) -> None:
    @ray.remote
    class Actor:
        async def run(self) -> str:
            try:
                (tmp_path / "begun").touch()
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if end == "raise":
                    raise
                if end == "other":
                    raise ValueError from None
            return "its own"

    ref = Actor.remote().run.remote()
    await_true((tmp_path / "begun").exists, "the call")
    ray.cancel(ref)
    assert_cancelled(ray, ref)
    with pytest.raises(RayTaskError):
        ray.get(ref, timeout=GET_S)


def test_what_depends_on_a_failure_of_the_system_fails_as_a_task_and_with_that_class(ray: ModuleType) -> None:
    @ray.remote(max_retries=0)
    def crash() -> None:
        os._exit(1)

    @ray.remote
    def use(value: object) -> object:
        return value

    for kind in (RayTaskError, WorkerCrashedError):
        with pytest.raises(kind, match="argument"):
            ray.get(use.remote(crash.remote()), timeout=GET_S)


# ---------------------------------------------------------------------- refs of others
def test_a_borrower_in_a_task_cancels_the_drivers_task(ray: ModuleType, tmp_path: Path) -> None:
    ref = make_runner(ray, tmp_path).remote("run")
    await_true((tmp_path / "run").exists, "the task")

    @ray.remote
    def stop(box: list[Any]) -> str:
        sundog.cancel(box[0])
        try:
            sundog.get(box[0], timeout=GET_S)
        except RayError as error:
            return type(error).__name__
        return "nothing"

    assert ray.get(stop.remote([ref]), timeout=GET_S) == "RayTaskError(TaskCancelledError)"
    assert_cancelled(ray, ref)


def test_the_driver_cancels_a_task_that_a_worker_owns(ray: ModuleType, tmp_path: Path) -> None:
    run = make_runner(ray, tmp_path)
    holder = make_holder(ray, tmp_path).remote()

    @ray.remote
    class Submitter:
        def submit(self, handle: Any) -> list[Any]:
            return [run.remote("run"), handle.hold.remote("never")]

    submitter = Submitter.remote()
    task, call = ray.get(submitter.submit.remote(holder), timeout=GET_S)
    await_true((tmp_path / "run").exists, "the task")
    await_true((tmp_path / "never-begun").exists, "the call")
    ray.cancel(task)
    ray.cancel(call, force=True)  # only its owner knows that it is a call: it is cancelled without force
    assert_cancelled(ray, task)
    (tmp_path / "never").touch()  # a call is only told
    assert_cancelled(ray, call)
    assert ray.get(holder.mark.remote("alive"), timeout=GET_S) == "alive"


def test_force_reaches_a_task_that_a_worker_owns(ray: ModuleType, tmp_path: Path) -> None:
    run = make_runner(ray, tmp_path)

    @ray.remote
    class Submitter:
        def submit(self) -> list[Any]:
            return [run.remote("run")]

    submitter = Submitter.remote()
    (ref,) = ray.get(submitter.submit.remote(), timeout=GET_S)
    await_true((tmp_path / "run").exists, "the task")
    ray.cancel(ref, force=True)
    assert_cancelled(ray, ref)
    assert not (tmp_path / "run-interrupted").exists()


def test_a_cancel_that_comes_while_the_worker_prepares_the_task_is_not_lost(
    ray_session: Callable[..., ModuleType], tmp_path: Path
) -> None:
    ray = ray_session(num_cpus=1)
    reached = tmp_path / "reached"

    @ray.remote
    def slow_down() -> None:
        """From now on this worker takes a packet with a new function, and goes on when a cancel has come."""
        from sundog.worker.serving import Serving

        accept = Serving.accept

        def slow_accept(self: Any, lane: Any, packet: Any) -> None:
            accept(self, lane, packet)
            if packet[0]:
                reached.touch()
                deadline = time.monotonic() + 120
                while not self.executor.cancelled_early and time.monotonic() < deadline:
                    time.sleep(0.001)

        Serving.accept = slow_accept  # type: ignore[method-assign]

    @ray.remote
    def sleep() -> None:
        time.sleep(LONG_S)

    ray.get(slow_down.remote())
    ref = sleep.remote()
    await_file(reached)
    ray.cancel(ref)
    with pytest.raises(TaskCancelledError):
        ray.get(ref, timeout=GET_S)


def test_a_cancelled_task_is_not_kept_for_an_argument_that_nobody_wants(
    ray: ModuleType, tmp_path: Path
) -> None:
    engine: Any = sundog.engines.current()
    owner = engine.owner

    @ray.remote
    def slow() -> None:
        await_file(tmp_path / "go")

    @ray.remote
    def use(value: None) -> None:
        pass

    argument = slow.remote()
    user = use.remote(argument)
    ray.cancel(user)
    with pytest.raises(TaskCancelledError):
        ray.get(user, timeout=GET_S)
    del argument
    (tmp_path / "go").touch()
    while owner.table:
        ray.get(use.remote(None), timeout=GET_S)
    assert not owner.dependents
