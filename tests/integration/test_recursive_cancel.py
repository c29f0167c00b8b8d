"""Cancelling a task with what it has submitted: children of tasks and of calls, and nobody else's."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import sundog
from sundog.exceptions import TaskCancelledError
from tests.integration.cancelling import GET_S, LONG_S, assert_cancelled, make_runner
from tests.integration.gates import await_file, await_true


def make_family(ray: ModuleType, folder: Path) -> Any:
    run = make_runner(ray, folder)

    @ray.remote
    def middle(name: str) -> Any:
        return sundog.get(run.remote(f"{name}-leaf"))

    @ray.remote
    def root() -> Any:
        return sundog.get([middle.remote("a"), middle.remote("b")])

    return root


def test_recursive_cancel_reaches_children_and_their_children(ray: ModuleType, tmp_path: Path) -> None:
    ref = make_family(ray, tmp_path).remote()
    for name in ("a-leaf", "b-leaf"):
        await_true((tmp_path / name).exists, name)
    ray.cancel(ref)
    assert_cancelled(ray, ref)
    for name in ("a-leaf", "b-leaf"):
        await_true((tmp_path / f"{name}-interrupted").exists, f"{name} was interrupted")


def test_recursive_cancel_reaches_children_submitted_before_the_interrupt_came(
    ray_session: Callable[..., ModuleType], tmp_path: Path
) -> None:
    ray = ray_session(num_cpus=2)
    run = make_runner(ray, tmp_path, num_cpus=0.5)

    @ray.remote(num_cpus=0.5)
    def parent() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with contextlib.suppress(TaskCancelledError):
                sundog.get(run.remote("first"))
            late = run.remote("late")  # the children were cancelled; the word has not reached their parent
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        sundog.get(late)

    ref = parent.remote()
    await_true((tmp_path / "first").exists, "the first child")
    ray.cancel(ref)
    assert_cancelled(ray, ref)
    await_true(lambda: ray.available_resources().get("CPU") == 2, "the end of all children")


def test_children_go_on_when_cancel_is_not_recursive(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote
    def child() -> int:
        (tmp_path / "child").touch()
        await_file(tmp_path / "gate")
        (tmp_path / "child-done").touch()
        return 1

    @ray.remote
    def parent() -> Any:
        return sundog.get(child.remote())

    ref = parent.remote()
    await_true((tmp_path / "child").exists, "the child")
    ray.cancel(ref, recursive=False)
    assert_cancelled(ray, ref)
    (tmp_path / "gate").touch()
    await_true((tmp_path / "child-done").exists, "the child's end")


def test_recursive_cancel_spares_what_an_earlier_task_of_that_worker_left_running(
    ray: ModuleType, tmp_path: Path
) -> None:
    @ray.remote
    def child() -> int:
        (tmp_path / "child").touch()
        await_file(tmp_path / "gate")
        return 7

    @ray.remote(resources={"one": 1})
    def first() -> Any:
        return [child.remote()], os.getpid()

    @ray.remote(resources={"one": 1})
    def second() -> None:
        (tmp_path / f"second-{os.getpid()}").touch()
        (tmp_path / f"second-{time.monotonic_ns()}").touch()
        time.sleep(LONG_S)

    ray.shutdown()
    ray.init(num_cpus=3, resources={"one": 1})
    (left,), pid = ray.get(first.remote(), timeout=GET_S)
    await_true((tmp_path / "child").exists, "the child")
    while not (tmp_path / f"second-{pid}").exists():  # until it is the same worker that runs it
        begun = len(list(tmp_path.glob("second-*")))
        later = second.remote()
        await_true(lambda begun=begun: len(list(tmp_path.glob("second-*"))) > begun, "the second task")
        ray.cancel(later)
        assert_cancelled(ray, later)
    (tmp_path / "gate").touch()
    assert ray.get(left, timeout=GET_S) == 7


@pytest.mark.parametrize("kind", ["async", "threaded"])
def test_recursive_cancel_reaches_the_children_of_one_of_several_calls(
    ray: ModuleType, tmp_path: Path, kind: str
) -> None:
    run = make_runner(ray, tmp_path)

    @ray.remote
    class Async:
        async def work(self, name: str) -> Any:
            return await run.remote(name)

    @ray.remote(max_concurrency=2)
    class Threaded:
        def work(self, name: str) -> Any:
            return sundog.get(run.remote(name))

    ray.shutdown()
    ray.init(num_cpus=4)
    made: Any = Async if kind == "async" else Threaded
    actor = made.remote()
    refs = [actor.work.remote(name) for name in ("one", "two")]
    for name in ("one", "two"):
        await_true((tmp_path / name).exists, name)
    ray.cancel(refs[0])
    await_true((tmp_path / "one-interrupted").exists, "the cancelled call's child was interrupted")
    with pytest.raises(ray.exceptions.RayError):
        ray.get(refs[0], timeout=GET_S)
    assert not (tmp_path / "two-interrupted").exists()
    assert ray.wait(refs[1:], timeout=0)[0] == []
    ray.cancel(refs[1])
    await_true((tmp_path / "two-interrupted").exists, "the other child")


def test_a_cancelled_task_is_listed_as_finished_and_the_call_it_waited_for_as_running(
    ray: ModuleType, tmp_path: Path
) -> None:
    from sundog.util import state

    @ray.remote(num_cpus=0)
    class Waits:
        def wait(self) -> None:
            (tmp_path / "waits").touch()
            await_file(tmp_path / "over")

    @ray.remote(num_cpus=0)
    class Loop:
        async def wait(self) -> None:
            import asyncio

            (tmp_path / "loop").touch()
            await asyncio.sleep(LONG_S)

    @ray.remote
    def parent(actor: Any) -> Any:
        return sundog.get(actor.wait.remote())

    waits, loop = Waits.remote(), Loop.remote()
    task, call = parent.remote(waits), loop.wait.remote()
    for name in ("waits", "loop"):
        await_true((tmp_path / name).exists, name)
    for ref in (task, call):
        ray.cancel(ref)
        assert_cancelled(ray, ref)

    def listed() -> set[tuple[str, str, str | None]]:
        rows = state.list_tasks(detail=True)
        return {(row.name, row.state, row.error_type) for row in rows if not row.name.endswith("__init__")}

    expected: set[tuple[str, str, str | None]] = {
        ("parent", "FINISHED", None),
        ("Waits.wait", "RUNNING", None),
        ("Loop.wait", "FAILED", "TASK_EXECUTION_EXCEPTION"),
    }
    await_true(lambda: listed() == expected, "the rows of the cancelled")
    (tmp_path / "over").touch()


def test_what_follows_a_recursive_cancel_does_not_overtake_it_on_its_way_down(
    ray: ModuleType, tmp_path: Path
) -> None:
    @ray.remote(num_cpus=0)
    class Gate:
        def __init__(self) -> None:
            import asyncio

            self.opened = asyncio.Event()

        async def wait(self) -> None:
            await self.opened.wait()

        async def open(self) -> None:
            self.opened.set()

    @ray.remote(num_cpus=0)
    class Link:
        def __init__(self, child: Any, gate: Any) -> None:
            self.child, self.gate, self.ref = child, gate, None

        async def run(self) -> bool:
            if self.child is None:
                waiting = self.gate.wait.remote()
                (tmp_path / "down").touch()
                await waiting
                return True
            self.ref = self.child.run.remote()
            return bool(await self.ref)

        async def child_ref(self) -> list[Any]:
            return [self.ref]

    gate = Gate.remote()
    links = [Link.remote(None, gate)]
    for _ in range(3):
        links.append(Link.remote(links[-1], gate))
    ref = links[-1].run.remote()
    await_true((tmp_path / "down").exists, "the last of the chain to run")
    ray.cancel(ref)
    ray.get(gate.open.remote(), timeout=GET_S)
    assert_cancelled(ray, ref)
    for link in reversed(links[1:]):
        assert_cancelled(ray, ray.get(link.child_ref.remote(), timeout=GET_S)[0])


def test_a_cancel_does_not_wait_for_long_for_a_worker_that_is_stopped(
    ray: ModuleType, tmp_path: Path
) -> None:
    run = make_runner(ray, tmp_path)

    @ray.remote(num_cpus=0)
    def stopped() -> None:
        (tmp_path / "pid").write_text(str(os.getpid()))
        run.remote("child")
        time.sleep(LONG_S)

    ref = stopped.remote()
    await_true(
        lambda: (tmp_path / "pid").exists() and bool((tmp_path / "pid").read_text()), "the task to run"
    )
    pid = int((tmp_path / "pid").read_text())
    await_true((tmp_path / "child").exists, "its child to run")
    os.kill(pid, signal.SIGSTOP)
    try:
        ray.cancel(ref)  # returns: that is the test
        assert ray.wait([ref], timeout=0) == ([], [ref])
    finally:
        os.kill(pid, signal.SIGCONT)
    assert_cancelled(ray, ref)
    await_true((tmp_path / "child-interrupted").exists, "the child to be interrupted")
