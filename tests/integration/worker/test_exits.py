"""The end of an actor: which of the user's last steps run, in which order, and who is answered."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sundog.actor import exit_actor
from sundog.exceptions import ActorDiedError, WorkerCrashedError
from sundog.util.state import list_workers
from tests.integration.drivers import running
from tests.integration.gates import Gate, await_true

GET_S = 120
IN_ORDER = ["shutdown", "del", "atexit"]


def make(ray: ModuleType, kind: str, **options: Any) -> Any:
    """An actor class that notes each of its last steps in a file."""
    if kind == "threads":
        options["max_concurrency"] = 3
    if kind == "groups":
        options["concurrency_groups"] = {"io": 1}
    cls = make_asyncio() if kind == "asyncio" else make_sync()
    return ray.remote(**options)(cls) if options else ray.remote(cls)


def make_noting() -> Any:
    class Noting:
        def __init__(self, path: Path) -> None:
            import atexit

            self.path = path
            atexit.register(lambda: note(path, "atexit"))

        def __ray_shutdown__(self) -> None:
            note(self.path, "shutdown")

        def __del__(self) -> None:
            note(self.path, "del")

    return Noting


def make_sync() -> Any:
    class Sync(make_noting()):
        def pid(self) -> int:
            return os.getpid()

        def leave(self) -> None:
            exit_actor()

        def leave_and_catch(self) -> str:
            try:
                exit_actor()
            except BaseException as error:
                return type(error).__name__
            return "unreachable"

        def leave_by_thread(self) -> str:
            thread = threading.Thread(target=self.leave_and_catch)
            thread.start()
            thread.join()
            return "answered"

        def stay(self, gate: Gate) -> str:
            gate.enter()
            return "stayed"

        def end_the_process(self) -> None:
            sys.exit(0)

    return Sync


def make_asyncio() -> Any:
    class Asyncio(make_noting()):
        async def pid(self) -> int:
            return os.getpid()

        async def leave(self) -> None:
            exit_actor()

        async def leave_and_catch(self) -> str:
            try:
                exit_actor()
            except Exception as error:
                return type(error).__name__
            return "unreachable"

        async def leave_by_thread(self) -> None:
            await asyncio.get_running_loop().run_in_executor(None, exit_actor)

        async def leave_by_slow_thread(self, gate: Gate) -> None:
            loop = asyncio.get_running_loop()
            left = loop.create_future()

            def leave() -> None:
                try:
                    exit_actor()
                except BaseException as error:  # kept while the thread stands at the gate
                    loop.call_soon_threadsafe(left.set_exception, error)
                    gate.enter()

            threading.Thread(target=leave, daemon=True).start()
            await left

        async def stay(self, gate: Gate) -> str:
            await asyncio.get_running_loop().run_in_executor(None, gate.enter)
            return "stayed"

        async def end_the_process(self) -> None:
            sys.exit(0)

    return Asyncio


def note(path: Path, word: str) -> None:
    with open(path, "a") as file:
        file.write(word + "\n")


def notes(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


KINDS = pytest.mark.parametrize("kind", ["sync", "threads", "groups", "asyncio"])


@KINDS
@pytest.mark.parametrize("way", ["leave", "__ray_terminate__", "leave_and_catch", "end_the_process"])
def test_an_actor_that_ends_by_a_call_takes_its_last_steps_and_does_not_answer(
    ray: ModuleType, tmp_path: Path, kind: str, way: str
) -> None:
    path = tmp_path / "notes"
    actor = make(ray, kind).remote(path)
    with pytest.raises(ActorDiedError):
        ray.get(getattr(actor, way).remote(), timeout=GET_S)
    with pytest.raises(ActorDiedError):
        ray.get(actor.pid.remote(), timeout=GET_S)
    assert notes(path) == IN_ORDER


@KINDS
def test_an_actor_whose_last_handle_goes_takes_its_last_steps(
    ray: ModuleType, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "notes"
    actor = make(ray, kind).remote(path)
    ray.get(actor.pid.remote(), timeout=GET_S)
    del actor
    await_true(lambda: notes(path) == IN_ORDER, "the actor's last steps")


@KINDS
def test_a_killed_actor_takes_no_last_step(ray: ModuleType, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "notes"
    actor = make(ray, kind).remote(path)
    pid = ray.get(actor.pid.remote(), timeout=GET_S)
    ray.kill(actor)
    await_true(lambda: not os.path.exists(f"/proc/{pid}"), "the end of the actor")
    assert notes(path) == []


def test_an_actor_takes_no_last_step_when_its_driver_ends(ray_session: Any, tmp_path: Path) -> None:
    ray = ray_session(num_cpus=1)
    path = tmp_path / "notes"
    actor = make(ray, "sync").remote(path)
    ray.get(actor.pid.remote(), timeout=GET_S)
    ray.shutdown()
    assert notes(path) == []


@KINDS
def test_exit_actor_in_a_thread_of_the_users_ends_the_actor_after_its_calls(
    ray: ModuleType, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "notes"
    actor = make(ray, kind).remote(path)
    answer = actor.leave_by_thread.remote()
    if kind == "asyncio":
        with pytest.raises(ActorDiedError):  # what the thread raised came back into the call
            ray.get(answer, timeout=GET_S)
    else:
        assert ray.get(answer, timeout=GET_S) == "answered"
    await_true(lambda: notes(path) == IN_ORDER, "the actor's last steps")


def test_an_asyncio_actor_is_finalised_while_a_thread_holds_the_error_of_exit_actor(
    ray: ModuleType, tmp_path: Path
) -> None:
    path, gate = tmp_path / "notes", Gate(tmp_path)
    actor = make(ray, "asyncio").remote(path)
    with pytest.raises(ActorDiedError):
        ray.get(actor.leave_by_slow_thread.remote(gate), timeout=GET_S)
    await_true(lambda: notes(path) == IN_ORDER, "the actor's last steps")
    gate.open()


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_calls_that_run_beside_exit_actor_end_first_and_are_answered(
    ray: ModuleType, tmp_path: Path, kind: str
) -> None:
    path, gate = tmp_path / "notes", Gate(tmp_path)
    actor = make(ray, kind).remote(path)
    staying = actor.stay.remote(gate)
    await_true(gate.inside, "the other call")
    leaving = actor.leave.remote()
    assert ray.wait([leaving], timeout=0.2) == ([], [leaving]) and notes(path) == []
    gate.open()
    assert ray.get(staying, timeout=GET_S) == "stayed"
    with pytest.raises(ActorDiedError):
        ray.get(leaving, timeout=GET_S)
    assert notes(path) == IN_ORDER


@pytest.mark.parametrize("busy", [True, False])
def test_sigterm_ends_an_actor_with_its_last_steps_and_it_may_restart(
    ray: ModuleType, tmp_path: Path, busy: bool
) -> None:
    path, gate = tmp_path / "notes", Gate(tmp_path)
    actor = make(ray, "sync", max_restarts=1, max_task_retries=-1).remote(path)
    pid = ray.get(actor.pid.remote(), timeout=GET_S)
    if busy:
        actor.stay.options(max_task_retries=0).remote(gate)
        await_true(gate.inside, "the call")
    os.kill(pid, signal.SIGTERM)
    await_true(lambda: not os.path.exists(f"/proc/{pid}"), "the end of the actor")
    assert ray.get(actor.pid.remote(), timeout=GET_S) != pid
    assert notes(path) == IN_ORDER


def test_sigterm_in_a_task_is_a_crash_of_its_worker_and_atexit_runs(ray: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "notes"

    @ray.remote(max_retries=0)
    def end() -> None:
        import atexit

        atexit.register(lambda: note(path, "atexit"))
        os.kill(os.getpid(), signal.SIGTERM)
        threading.Event().wait(GET_S)

    with pytest.raises(WorkerCrashedError, match="SIGTERM"):
        ray.get(end.remote(), timeout=GET_S)
    await_true(lambda: notes(path) == ["atexit"], "the worker's last steps")
    await_true(
        lambda: any(
            "SIGTERM" in (worker.exit_detail or "") and worker.exit_type == "SYSTEM_ERROR"
            for worker in list_workers(detail=True)
        ),
        "the worker in the list, as a failure",
    )


def test_a_worker_that_has_run_max_calls_runs_its_atexit_handlers(ray: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "notes"

    @ray.remote(max_calls=1)
    def once() -> None:
        import atexit

        atexit.register(lambda: note(path, "atexit"))

    ray.get(once.remote(), timeout=GET_S)
    await_true(lambda: notes(path) == ["atexit"], "the worker's last steps")


def test_a_shutdown_hook_may_raise_and_may_use_the_api(ray: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "notes"

    @ray.remote
    def seven() -> int:
        return 7

    @ray.remote
    class Raising:
        def __ray_shutdown__(self) -> None:
            note(path, str(ray.get(seven.remote(), timeout=GET_S)))
            raise ValueError("for a test")

    actor = Raising.remote()
    with pytest.raises(ActorDiedError, match="__ray_terminate__"):
        ray.get(actor.__ray_terminate__.remote(), timeout=GET_S)
    assert notes(path) == ["7"]


def test_a_shutdown_hook_that_never_ends_is_cut_off(ray_session: Any) -> None:
    ray = ray_session(num_cpus=1, _system_config={"actor_graceful_shutdown_timeout_ms": 200})

    @ray.remote
    class Stuck:
        def pid(self) -> int:
            return os.getpid()

        def __ray_shutdown__(self) -> None:
            threading.Event().wait()

    actor = Stuck.remote()
    pid = ray.get(actor.pid.remote(), timeout=GET_S)
    with pytest.raises(ActorDiedError):
        ray.get(actor.__ray_terminate__.remote(), timeout=GET_S)
    await_true(lambda: not os.path.exists(f"/proc/{pid}"), "the end of the actor")


@pytest.mark.parametrize(
    ("way", "lives"), [("leave", 1), ("sys.exit(0)", 1), ("sys.exit(3)", 2), ("SIGTERM", 2)]
)
def test_a_constructor_may_end_its_actor_on_purpose_or_by_a_failure_that_restarts_it(
    ray: ModuleType, tmp_path: Path, way: str, lives: int
) -> None:
    path = tmp_path / "notes"

    @ray.remote(max_restarts=1)
    class Leaving:
        def __init__(self) -> None:
            note(path, "life")
            if len(notes(path)) == 1:
                if way == "leave":
                    exit_actor()
                if way == "SIGTERM":
                    os.kill(os.getpid(), signal.SIGTERM)
                sys.exit(int(way[-2]) if way.startswith("sys") else 3)

        def ping(self) -> str:
            return "pong"

    actor = Leaving.options(max_task_retries=1).remote()
    if lives == 2:
        assert ray.get(actor.ping.remote(), timeout=GET_S) == "pong"
    else:
        with pytest.raises(ActorDiedError):
            ray.get(actor.ping.remote(), timeout=GET_S)
    assert len(notes(path)) == lives


def test_children_of_an_actor_end_with_it_also_those_in_sessions_of_their_own(ray: ModuleType) -> None:
    @ray.remote
    class Parent:
        def spawn(self) -> int:
            return subprocess.Popen(["sleep", "60"]).pid

    parent = Parent.remote()
    child = ray.get(parent.spawn.remote(), timeout=GET_S)
    del parent
    await_true(lambda: not os.path.exists(f"/proc/{child}"), "the end of the child")


@pytest.mark.parametrize("verb", ["ray.get(slow.remote())", "ray.wait([slow.remote()])", "time.sleep(30)"])
def test_sigterm_to_a_driver_leaves_like_sys_exit_and_ends_the_session(verb: str) -> None:
    program = f"""
        import atexit, time
        ray.init(num_cpus=1)
        @ray.remote
        def slow():
            time.sleep(30)
        atexit.register(lambda: print("atexit", flush=True))
        try:
            print("ready", flush=True)
            {verb}
        except SystemExit as error:
            print("left with", error.code, flush=True)
            raise
    """
    with running(program) as driver:
        assert driver.line() == "ready"
        os.kill(driver.pid, signal.SIGTERM)
        assert driver.line() == "left with 15"
        assert driver.line() == "atexit"
        assert driver.process.wait(GET_S) == 15
