"""The node's dispatch: drivers that come and go, leases, lanes between processes, the end of a job."""

from __future__ import annotations

import os

from sundog.net.packets import make_pair
from sundog.state.lease_spec import LeaseSpec
from sundog.wire import versions
from sundog.wire.control import (
    Bye,
    Died,
    Goodbye,
    LaneOpened,
    LeaseGranted,
    Leaving,
    OpenLane,
    Refused,
    Release,
    SetupFailed,
    Stale,
    WantLeases,
    Welcome,
)
from sundog.wire.zygote import Exited, Import
from tests.node.whole import DRIVER, WholeNode


def _spec(cpus: float = 1.0) -> LeaseSpec:
    return LeaseSpec(resources=(("CPU", cpus),), env_key="01000000:")


def test_a_driver_gets_a_job_and_workers_before_it_asks(world: WholeNode) -> None:
    driver = world.driver()
    [job] = world.node.jobs.values()
    assert (job.driver, job.entrypoint, job.namespace) == (DRIVER, "train.py", "ns")
    assert driver.heard(Welcome) == [] and len(world.forks()) == min(2, os.cpu_count() or 1)
    second = world.driver(b"driver02", versions=versions.own())
    [welcome] = second.heard(Welcome)
    assert len(world.node.jobs) == 2 and welcome[2] != job.job_id


def test_a_driver_of_another_version_is_turned_away_with_the_reason(world: WholeNode) -> None:
    driver = world.driver(versions=versions.own() | {"interpreter": "cpython-27", "python": "2.7.18"})
    [(_, text)] = driver.heard(Refused)
    assert "2.7" in text and world.node.jobs == {}


def test_a_message_of_another_version_is_logged_and_a_hello_is_answered(world: WholeNode) -> None:
    stranger = world.connect()
    stranger.connection.send(("hello", 1, 2))
    world.loop.turn()
    assert stranger.heard(Refused) and any("'hello' has 2 fields" in line for line in world.lines)
    stranger.connection.send(("of a later version", 1))
    world.loop.turn()
    assert world.lines[-1] == "unknown message 'of a later version'"


def test_a_script_with_functions_has_the_pickler_loaded_before_the_first_fork(world: WholeNode) -> None:
    world.driver(script=True)
    assert world.zygote.heard()[0] == (Import.kind, [("cloudpickle", "")])


def test_leases_are_granted_released_and_granted_again(world: WholeNode) -> None:
    driver = world.driver()
    workers = dict(world.forks())
    driver.tell(WantLeases(7, _spec(), 1, ("f",), 0))
    [(_, key, lease, worker, pid, _, number)] = driver.heard(LeaseGranted)
    assert number == 1 and key == 7 and worker in workers and world.node.processes[worker].pid == pid
    assert world.node.leases.lease_count() == 1
    driver.tell(Release(lease, True))
    assert world.node.leases.lease_count() == 0


def test_a_want_that_was_sent_before_a_grant_was_read_counts_that_grant_as_well(world: WholeNode) -> None:
    driver = world.driver()
    assert len(world.forks()) == 2
    driver.tell(WantLeases(7, _spec(), 1, ("f",), 0))
    driver.tell(WantLeases(7, _spec(), 2, ("f",), 0))
    assert [message[-1] for message in driver.heard(LeaseGranted)] == [1, 2]
    assert world.node.leases.lease_count() == 2 and not world.node.leases.table(world.node.now())


def test_a_lane_is_passed_on_and_its_ends_hear_of_each_others_death(world: WholeNode) -> None:
    driver = world.driver()
    (worker, peer), *_ = world.forks()
    ours, theirs = make_pair()
    driver.tell(OpenLane(worker), theirs.fileno())
    assert peer.heard(LaneOpened) == [(LaneOpened.kind, DRIVER)] and len(peer.fds) == 1
    world.zygote.tell(Exited(world.node.processes[worker].pid, 9, 0))  # died of SIGKILL
    [(_, who, cause)] = driver.heard(Died)
    assert (who, cause.signal, cause.intended) == (worker, 9, False)
    driver.tell(OpenLane(worker), theirs.fileno())
    assert driver.heard(Died)[0][1] == worker  # it is gone: said at once
    ours.close()
    theirs.close()


def test_a_driver_that_leaves_gets_the_last_of_the_output_and_its_workers_end(world: WholeNode) -> None:
    driver = world.driver()
    (worker, _), *_ = world.forks()
    driver.tell(Bye())
    assert driver.heard(Goodbye) == [(Goodbye.kind,)]
    driver.close()
    world.peers.remove(driver)
    assert world.node.jobs == {} and DRIVER not in world.node.processes
    assert world.node.processes[worker].kill_reason == "its job ended"
    assert not world.node.stopping  # it was started to stay


def test_a_node_that_was_started_for_a_program_ends_with_it(world: WholeNode) -> None:
    world.node.persistent = False
    driver = world.driver()
    driver.close()
    world.peers.remove(driver)
    assert world.node.stopping and world.lines[-1] == "stopping: its last driver is gone"


def test_why_a_worker_leaves_is_its_own_word_unless_the_node_ended_it(world: WholeNode) -> None:
    world.driver()
    (worker, peer), *_ = world.forks()
    process = world.node.processes[worker]
    peer.tell(Leaving("sys.exit(3) was called", False))
    assert (process.kill_reason, process.intended) == ("sys.exit(3) was called", False)
    process.kill_reason, process.intended, process.killed = "cancelled", True, True
    peer.tell(Leaving("it was idle", True))
    assert process.kill_reason == "cancelled"


def test_a_worker_with_old_code_is_retired(world: WholeNode) -> None:
    driver = world.driver()
    for worker, peer in world.forks():
        peer.tell(Stale("/project/model.py"))
        assert any(
            f"worker {worker.hex()}" in line and "/project/model.py changed" in line for line in world.lines
        )
    driver.tell(WantLeases(7, _spec(), 1, ("f",), 0))
    assert driver.heard(LeaseGranted) == []


def test_an_environment_that_cannot_be_set_up_fails_what_asks_for_it(world: WholeNode) -> None:
    driver = world.driver()
    (_, peer), *_ = world.forks()
    peer.tell(SetupFailed("RuntimeError: pip failed", {"pip": "x"}))
    assert [message[2] for message in driver.heard() if message[0] == "env_failed"] == [
        "RuntimeError: pip failed"
    ]
    driver.tell(WantLeases(7, _spec(), 1, ("f",), 0))
    assert [message[0] for message in driver.heard()] == ["env_failed"]
