"""What a session knows of its tasks: what they used, which attempts there were, the line a dead one ran."""

# mypy: disable-error-code="untyped-decorator"
# `ray` is whichever module the fixture gives, so its decorator has no type.
from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sundog import events
from sundog.observe.index import session_usage
from sundog.observe.records import read_session
from sundog.util import state
from tests.integration.gates import await_file, await_true

MIB = 1 << 20


def session_path() -> str:
    from sundog.owner import context

    return str(context.facts.session["path"])


def attempts(name: str, count: int = 1) -> list[Any]:
    """The rows of a function of the test's own; a worker writes an event just after its reply."""
    found: list[Any] = []

    def ended() -> bool:
        found[:] = [row for row in state.list_tasks(detail=True) if row.name.rpartition(".")[2] == name]
        return len(found) == count

    await_true(ended, f"{count} rows of {name}")
    return sorted(found, key=lambda row: row.attempt_number)


def usage_of(name: str, summary: dict[str, Any]) -> Any:
    [found] = [entry["usage"] for key, entry in summary["cluster"]["summary"].items() if key.endswith(name)]
    return found


def burn(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_memory_and_processor_time_of_each_task_are_recorded(ray: ModuleType) -> None:
    @ray.remote
    def allocates(size: int) -> int:
        block = bytearray(size)
        return len(block)

    @ray.remote
    def burns() -> None:
        burn(0.15)

    @ray.remote
    def waits() -> None:
        time.sleep(0.15)

    ray.get([allocates.remote(0), allocates.remote(80 * MIB), burns.remote(), waits.remote()])
    small, large = sorted(row.peak_memory for row in attempts("allocates", 2))
    assert 70 * MIB < large - small < 120 * MIB
    [worked], [waited] = attempts("burns"), attempts("waits")
    assert waited.cpu_s < 0.1 < 0.15 <= worked.cpu_s < 1.0
    assert (worked.attempt_number, worked.state) == (0, "FINISHED")
    usage = usage_of("allocates", state.summarize_tasks())
    assert (usage["count"], usage["failed"], usage["lost"]) == (2, 0, 0)
    assert usage["peak_memory"]["max"] == large
    assert small <= usage["peak_memory"]["mean"] <= usage["peak_memory"]["p95"] <= large
    path = session_path()
    ray.shutdown()
    after = session_usage(path)
    assert [found for name, found in after["functions"].items() if name.endswith("allocates")] == [usage]
    assert after["missed"] == 0


def test_objects_in_shared_memory_are_not_a_readers_own(ray: ModuleType) -> None:
    numpy = pytest.importorskip("numpy")
    ref = ray.put(numpy.ones(10_000_000))

    @ray.remote
    def reads(array: Any) -> float:
        return float(array.sum())

    assert ray.get(reads.remote(ref)) == 1e7
    [row] = attempts("reads")
    assert row.peak_memory < 70 * MIB
    [put] = [span for span in read_session(session_path()).spans if span.kind == "put"]
    assert put.size_bytes >= 80_000_000 and put.end_s > put.start_s


def test_every_attempt_is_a_row(ray: ModuleType, tmp_path: Path) -> None:
    marks = [tmp_path / "1", tmp_path / "2"]

    @ray.remote(max_retries=2, retry_exceptions=True)
    def third_time_lucky() -> str:
        for mark in marks:
            if not mark.exists():
                mark.touch()
                if mark == marks[0]:
                    os.kill(os.getpid(), signal.SIGKILL)
                raise ValueError("again")
        return "done"

    assert ray.get(third_time_lucky.remote()) == "done"
    rows = attempts("third_time_lucky", 3)
    assert [(row.attempt_number, row.state, row.error_type) for row in rows] == [
        (0, "FAILED", "WORKER_DIED"),
        (1, "FAILED", "TASK_EXECUTION_EXCEPTION"),
        (2, "FINISHED", None),
    ]
    assert len({row.task_id for row in rows}) == 1
    assert rows[0].worker_pid not in (0, rows[2].worker_pid)
    usage = usage_of("third_time_lucky", state.summarize_tasks())
    assert (usage["count"], usage["failed"], usage["lost"]) == (3, 2, 1)


def test_the_line_that_a_killed_task_ran_is_known_afterwards(ray: ModuleType, tmp_path: Path) -> None:
    go = tmp_path / "go"

    @ray.remote(max_retries=0)
    def hangs() -> None:
        block = bytearray(50 * MIB)
        await_file(go)  # never made
        del block

    ref = hangs.remote()
    rings = Path(session_path()) / "rings"

    def seen() -> events.SampledLine | None:
        samples = (events.last_sample(str(path)) for path in rings.glob("*.ring"))
        return next((sample for sample in samples if sample and sample.line.endswith(" await_true")), None)

    await_true(seen, "a sample")
    [running] = attempts("hangs")
    assert running.state == "RUNNING"
    os.kill(running.worker_pid, signal.SIGKILL)
    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(ref)
    ring = str(rings / f"{running.worker_id}.ring")
    sample = events.last_sample(ring)
    assert sample is not None and sample.task_id == events.started_last(ring) == ref.task_id().binary()
    assert "gates.py:" in sample.line
    [row] = attempts("hangs")
    assert (row.state, row.error_type, row.worker_pid) == ("FAILED", "WORKER_DIED", running.worker_pid)
    assert row.peak_memory >= 50 * MIB
    assert row.end_time_ms - row.start_time_ms >= 100


def test_calls_of_threaded_and_asyncio_actors_are_charged_one_by_one(ray: ModuleType) -> None:
    class Threads:
        def burns(self) -> None:
            burn(0.15)

        def waits(self) -> None:
            time.sleep(0.3)

    class Loop:
        async def burns(self) -> None:
            await asyncio.sleep(0.01)
            burn(0.15)

        async def waits(self) -> None:
            await asyncio.sleep(0.3)

    actors = [ray.remote(Threads).options(max_concurrency=2).remote(), ray.remote(Loop).remote()]
    ray.get([call.remote() for actor in actors for call in (actor.burns, actor.waits)])
    burnt, waited = attempts("burns", 2), attempts("waits", 2)
    assert max(row.cpu_s for row in waited) < 0.1 < 0.15 <= min(row.cpu_s for row in burnt)
    ids = {actor._actor_id.hex() for actor in actors}
    assert {row.actor_id for row in burnt} == {row.actor_id for row in waited} == ids
    classes = state.summarize_actors()["cluster"]["summary"]
    assert sorted(entry["usage"]["count"] for entry in classes.values()) == [3, 3]
    lines = [row.line for row in read_session(session_path()).samples]
    assert any(line.endswith((".waits", "burn")) for line in lines)


def test_bytes_of_constructors_and_of_streams_are_recorded(ray: ModuleType) -> None:
    @ray.remote
    class Shop:
        def __init__(self, stock: bytes) -> None:
            self.stock = stock

        async def deliver(self, count: int) -> Any:
            for _ in range(count):
                yield self.stock[:2000]

    @ray.remote(num_returns="streaming", max_retries=0)
    def parts(fails: bool) -> Any:
        for _ in range(5):
            yield b"y" * 3000
        if fails:
            raise ValueError

    shop = Shop.remote(b"x" * 50_000)
    assert len([ray.get(each) for each in shop.deliver.options(num_returns="streaming").remote(4)]) == 4
    assert len([ray.get(each) for each in parts.remote(False)]) == 5
    with pytest.raises(ValueError):
        [ray.get(each) for each in parts.remote(True)]
    [made] = attempts("__init__")
    assert 50_000 <= made.bytes_in < 51_000
    [delivered] = attempts("deliver")
    assert 8000 <= delivered.bytes_out < 9000
    for row in attempts("parts", 2):
        assert 15_000 <= row.bytes_out < 16_000, row.state


def test_a_task_that_forks_is_recorded_once(ray: ModuleType) -> None:
    @ray.remote(max_retries=0)
    def forks() -> int:
        pid = os.fork()
        if pid == 0:
            return 1  # the child ends here: it has nobody to answer to
        return os.waitpid(pid, 0)[1]

    assert ray.get([forks.remote() for _ in range(3)]) == [0, 0, 0]
    assert [row.state for row in attempts("forks", 3)] == ["FINISHED"] * 3


def test_without_recording_everything_still_runs(ray_session: Any) -> None:
    ray = ray_session(num_cpus=1, _system_config={"record_enabled": False})

    @ray.remote
    def f() -> int:
        time.sleep(0.15)
        return 1

    assert ray.get(f.remote()) == 1
    assert state.list_tasks() == []
    assert state.summarize_tasks()["cluster"]["summary"] == {}
