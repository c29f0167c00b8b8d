"""`sundog stack`: what every process does now, also while its main thread blocks or C code keeps the interpreter."""

# mypy: disable-error-code="untyped-decorator"
# `ray` is whichever module the fixture gives, so its decorator has no type.
from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest
from click.testing import CliRunner

from sundog.cli import main
from sundog.observe import fault_dumps
from sundog.owner import context
from sundog.owner.fault_dumps import SIGNAL
from tests.integration.gates import await_file, await_true


def held_by_c_code(folder: Path) -> None:
    (folder / f"in-{os.getpid()}").touch()
    re.match(r"(a+)+$", "a" * 64 + "b")  # for ever, and never lets another thread run


def sundog(*arguments: str, code: int = 0) -> str:
    """The command, in this process: a process of its own would cost each of these a third of a second."""
    found = CliRunner().invoke(main, arguments, standalone_mode=True)
    assert found.exit_code == code, found.output
    return str(found.output)


def stacks_of(*arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(sundog("stack", "--json", *arguments))
    return found


def functions(process: dict[str, Any]) -> list[str]:
    return [
        frame["function"] for stack in process["stacks"] for frame in stack["frames"] if not frame["ours"]
    ]


def test_every_kind_of_process_shows_what_it_runs(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote(num_cpus=0)
    def sleeps() -> None:
        await_file(tmp_path / "go")

    @ray.remote(num_cpus=0)
    class Async:
        async def outer(self) -> None:
            await self.inner()

        async def inner(self) -> None:
            (tmp_path / "inner").touch()
            await asyncio.gather(*(asyncio.sleep(1000) for _ in range(3)))

        async def more(self) -> int:
            return 1

    @ray.remote(num_cpus=0, max_concurrency=2)
    class Threaded:
        def waits(self) -> None:
            threading.Event().wait(1000)

        def pid(self) -> int:
            return os.getpid()

    refs = [sleeps.remote(), sleeps.remote()]
    anna, threaded = Async.options(name="anna").remote(), Threaded.remote()
    calls = [anna.outer.remote(), threaded.waits.remote()]
    _, pid_of_threaded = ray.get([anna.more.remote(), threaded.pid.remote()])
    await_true((tmp_path / "inner").exists, "the coroutine runs")
    await_true(lambda: sum("sleeps" in str(functions(each)) for each in stacks_of()) == 2, "both sleep")

    by_name: dict[str, list[dict[str, Any]]] = {}
    for process in stacks_of():
        for call in process["running"]:
            by_name.setdefault(call["name"].rpartition(".")[2], []).append(process)
    assert by_name["waits"][0]["pid"] == pid_of_threaded
    chain = next(s for s in by_name["outer"][0]["stacks"] if s["task_id"] == calls[0].task_id().hex())
    assert [f["function"].rpartition(".")[2] for f in chain["frames"] if not f["ours"]] == ["inner", "outer"]
    assert chain["waits_for"] == "gather of 3, 3 not done"
    assert by_name["sleeps"][0]["running"][0]["for_s"] >= 0
    assert [process["pid"] for process in stacks_of(str(os.getpid()))] == [os.getpid()]

    text = sundog("stack")
    assert re.search(r"2 × worker running .*sleeps for .*\(pid \d+, \d+\)", text)
    assert "sundog-reader" not in text and "\nnode  (pid" not in text
    everything = sundog("stack", "--all")
    assert "sundog-reader" in everything and "zygote  (pid" in everything
    assert "anna" in sundog("stack", "anna") and "sleeps" not in sundog("stack", "anna")
    assert "inner" in sundog("stack", calls[0].task_id().hex())
    # The first digits of an id are not enough to mean it: they may be a pid.
    assert "inner" not in sundog("stack", calls[0].task_id().hex()[:2], code=1)

    (tmp_path / "go").touch()
    ray.get(refs)
    assert "does not run now: it is FINISHED" in sundog("stack", refs[0].task_id().hex(), code=1)
    assert "no process of this session has the pid 1." in sundog("stack", "1", code=1)
    assert "is not a pid, worker, actor, class of an actor, task or function" in sundog(
        "stack", "nobody", code=1
    )


def test_a_process_that_cannot_answer_is_asked_by_signal_or_said_to_be_stopped(
    ray: ModuleType, tmp_path: Path
) -> None:
    held = ray.remote(held_by_c_code).options(max_retries=0).remote(tmp_path)
    await_true(lambda: list(tmp_path.glob("in-*")), "it runs")
    [pid] = [int(path.name[3:]) for path in tmp_path.glob("in-*")]
    [stuck] = stacks_of(str(pid), "--patience", "0.2")
    assert stuck["how"] == "signal" and "held_by_c_code" in functions(stuck)
    assert stuck["running"][0]["name"] == "held_by_c_code"
    os.kill(pid, signal.SIGSTOP)
    await_true(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, "it is stopped")
    assert f"it is stopped; to continue it: kill -CONT {pid}" in sundog(
        "stack", str(pid), "--patience", "0.1"
    )
    ray.cancel(held, force=True)
    with pytest.raises(ray.exceptions.RayError):
        ray.get(held)
    assert "has ended" in sundog("stack", str(pid), code=1)


def test_a_program_that_handles_the_signal_itself_is_left_alone(ray: ModuleType, tmp_path: Path) -> None:
    before = signal.signal(SIGNAL, lambda *_: (tmp_path / "called").touch())
    try:
        found = fault_dumps.ask(context.facts.session["path"], os.getpid())
    finally:
        signal.signal(SIGNAL, before)
    assert isinstance(found, fault_dumps.Silence) and "handles signal" in found.why
    assert not (tmp_path / "called").exists()


def test_a_session_that_has_ended_has_no_stacks(ray: ModuleType) -> None:
    ray.shutdown()
    assert "has ended, and this command needs a running one" in sundog("stack", code=3)
