"""Faults of services and asyncio actors, in runs made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from sundog.advice.contention import held_actors
from sundog.advice.findings_serve import batch_never_fills, blocking_code, hot_replica
from sundog.advice.run import Run
from sundog.advice.simulator import play
from sundog.advice.source import Sources
from tests.advice.runs import Script

DEPLOYMENT = """
import time
from sundog import serve

@serve.deployment
class Model:
    @serve.batch(max_batch_size=8, batch_wait_timeout_s=0.1)
    async def __call__(self, xs):
        time.sleep(0.1)
        return xs
"""


def served(tmp_path: Path, starts: dict[bytes, list[float]], took_s: float, submit_s: float = 0.0) -> Script:
    file = tmp_path / "app.py"
    file.write_text(DEPLOYMENT)
    script = Script()
    for actor in starts:
        script.create("ReplicaActor", actor, site=f"{file}:1 in main")
    script.now = submit_s
    calls = [
        script.call("ReplicaActor.handle_request", took_s, actor, start_s=start)
        for actor, own in starts.items()
        for start in own
    ]
    script.get(*calls)
    return script


def run_of(script: Script, *actors: bytes) -> Run:
    concurrent = frozenset(actors)
    replicas = dict.fromkeys(actors, "default#Model")
    return script.run(
        concurrent=concurrent, replicas=replicas, held=held_actors(script.nodes, concurrent), busy={}
    )


def test_calls_of_an_async_replica_that_run_one_at_a_time_are_found(tmp_path: Path) -> None:
    run = run_of(served(tmp_path, {b"a": [n * 0.1 for n in range(8)]}, 0.1), b"a")
    [draft] = blocking_code(run, Sources())
    assert draft.site == f"{tmp_path / 'app.py'}:9" and "time.sleep()" in draft.change
    assert play(run).length_s == pytest.approx(0.8)
    assert play(draft.run).length_s == pytest.approx(0.1)


def test_calls_that_run_beside_each_other_or_do_not_wait_hold_nobody_up(tmp_path: Path) -> None:
    together = run_of(served(tmp_path, {b"a": [0.0] * 8}, 0.1), b"a")
    assert not together.held and not list(blocking_code(together, Sources()))


def test_a_replica_that_serves_most_requests_is_found(tmp_path: Path) -> None:
    starts = {b"a": [n * 0.1 for n in range(8)], b"b": [0.0]}
    run = run_of(served(tmp_path, starts, 0.1), b"a", b"b")
    [draft] = hot_replica(run, Sources())
    assert draft.site == f"{tmp_path / 'app.py'}:6" and "89%" in draft.title
    assert play(draft.run).length_s == pytest.approx(0.5)
    even = {b"a": [n * 0.1 for n in range(4)], b"b": [n * 0.1 for n in range(4)]}
    assert not list(hot_replica(run_of(served(tmp_path, even, 0.1), b"a", b"b"), Sources()))


def test_batches_that_wait_for_requests_that_do_not_come_are_found(tmp_path: Path) -> None:
    script = Script()
    file = tmp_path / "app.py"
    file.write_text(DEPLOYMENT)
    script.create("ReplicaActor", b"a", site=f"{file}:1 in main")
    for _ in range(6):
        script.get(script.call("ReplicaActor.handle_request", 0.1, b"a"))
    run = run_of(script, b"a")
    [draft] = batch_never_fills(run, Sources())
    assert draft.site == f"{file}:7" and "1 of 8" in draft.title
    assert play(draft.run).length_s == pytest.approx(0.006)
    full = run_of(served(tmp_path, {b"a": [0.0] * 8}, 0.1), b"a")
    assert not list(batch_never_fills(full, Sources()))
