"""Worker processes: asked for, connected, ended, and a zygote that dies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sundog.node import workers as module
from sundog.state.instructions import StopWorker
from sundog.wire.control import ExitOk, MayExit, StopServing, WarnOnce
from sundog.wire.zygote import Exited, ForkFailed
from tests.node.whole import NODE, Peer, WholeNode


@pytest.fixture
def worker(world: WholeNode) -> tuple[bytes, Peer]:
    world.driver()
    return world.forks()[0]


def test_a_forked_worker_is_known_by_its_pid_and_idle(world: WholeNode, worker: tuple[bytes, Peer]) -> None:
    process = world.node.processes[worker[0]]
    assert process.state == "idle" and world.node.workers.by_pid[process.pid] == worker[0]
    assert process.out_path.endswith(f"worker-{worker[0].hex()}.out") and process.node_id == NODE


def test_an_idle_worker_ends_when_nobody_needs_what_it_owns(
    world: WholeNode, worker: tuple[bytes, Peer]
) -> None:
    worker_id, peer = worker
    world.node.workers.stop(StopWorker(worker_id, "idle"))
    assert peer.heard() == [(MayExit.kind,)]
    peer.tell(ExitOk(False))
    assert peer.heard(StopServing) == []
    world.loop.ring()
    assert peer.heard(MayExit) == [(MayExit.kind,)]  # asked again, and again
    peer.tell(ExitOk(True))
    assert peer.heard(StopServing) == [(StopServing.kind, "idle")]
    process = world.node.processes[worker_id]
    assert (process.kill_reason, process.intended) == (module.IDLE, True)


def test_any_other_reason_ends_a_worker_now(world: WholeNode, worker: tuple[bytes, Peer]) -> None:
    world.node.workers.stop(StopWorker(worker[0], "its placement group was removed"))
    process = world.node.processes[worker[0]]
    assert (process.kill_reason, process.killed, process.state) == (
        "its placement group was removed",
        True,
        "stopping",
    )
    world.node.workers.kill(worker[0], "another reason")
    assert process.kill_reason == "its placement group was removed"  # the first reason stays


def test_a_worker_that_died_by_itself_is_logged_with_its_cause(
    world: WholeNode, worker: tuple[bytes, Peer]
) -> None:
    pid = world.node.processes[worker[0]].pid
    world.zygote.tell(Exited(pid, 3 << 8, 0))
    assert worker[0] not in world.node.processes and pid not in world.node.workers.by_pid
    assert any(f"(pid {pid}) died" in line and "code 3" in line for line in world.lines)
    world.zygote.tell(Exited(pid, 0, 0))  # told twice: nothing more


def test_a_fork_that_failed_is_said_once_and_its_process_forgotten(world: WholeNode) -> None:
    driver = world.driver()
    known = len(world.node.processes)
    for _, worker, *_ in world.zygote.heard():
        world.zygote.tell(ForkFailed(worker, "Resource temporarily unavailable"))
    told = driver.heard(WarnOnce)
    assert len(told) == 1 and "Resource temporarily unavailable" in told[0][2]
    assert len(world.node.processes) < known


def test_the_workers_of_a_job_that_outlive_it_are_detached_actors_and_what_these_started(
    world: WholeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.driver()
    (one, _), (two, _) = world.forks()

    class Row:
        """A detached actor."""

        detached = True
        owner = b"driver01"

    monkeypatch.setattr(
        world.node.keeper.actors, "on_worker", lambda worker: Row() if worker == one else None
    )
    world.node.processes[two].serves = one
    assert world.node.workers.outliving({one, two}) == {one, two}
    world.node.processes[two].serves = b"driver01"
    assert world.node.workers.outliving({one, two}) == {one}


def test_a_zygote_that_dies_is_replaced_and_its_unstarted_workers_are_asked_for_again(
    world: WholeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.driver()
    made: list[object] = []
    monkeypatch.setattr(world.node.workers, "_replace_zygote", lambda: made.append(True))
    world.zygote.connection.close()
    world.loop.turn()
    assert made == [True] and "the zygote is gone; starting another" in world.lines
    assert world.node.workers._unstarted == {}


def test_a_zygote_that_never_serves_ends_the_session_with_its_log(
    world: WholeNode, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "logs" / "zygote.log").write_text("ImportError: no module named sundog\n")
    monkeypatch.setattr(world.node.workers, "_replace_zygote", lambda: None)
    for _ in range(3):
        world.node.workers._zygote_gone()
    assert world.node.stopping and "ImportError: no module named sundog" in world.lines[-1]
    assert os.path.exists(tmp_path / "logs")
