"""Rows of the state API that the node itself knows, in Ray's words."""

from __future__ import annotations

import pytest

from sundog.node.listings import _death_reason, _exit_type
from sundog.wire import requests as ask
from sundog.wire.cause import EXIT, KERNEL_OOM, MEMORY, SIGNAL, Cause
from sundog.wire.control import ActorKill, ActorRegister, ActorStart, Env
from sundog.wire.zygote import Exited
from tests.node.test_requests import _spec
from tests.node.whole import NODE, Peer, WholeNode

ACTOR = b"driver01" + b"a" * 8


@pytest.mark.parametrize(
    ("cause", "word"),
    [
        (Cause(kind=MEMORY, reason="memory was running out"), "NODE_OUT_OF_MEMORY"),
        (Cause(kind=KERNEL_OOM, signal=9), "NODE_OUT_OF_MEMORY"),
        (Cause(reason="it was idle", intended=True), "INTENDED_SYSTEM_EXIT"),
        (Cause(reason="sys.exit(0) was called in f()", intended=True), "INTENDED_USER_EXIT"),
        (Cause(kind=EXIT, exit_code=0), "INTENDED_USER_EXIT"),
        (Cause(kind=EXIT, exit_code=3), "SYSTEM_ERROR"),
        (Cause(kind=SIGNAL, signal=11), "SYSTEM_ERROR"),
    ],
)
def test_the_end_of_a_worker_has_rays_word(cause: Cause, word: str) -> None:
    assert _exit_type(cause) == word


@pytest.mark.parametrize(
    ("cause", "word"),
    [
        ("out_of_scope", "REF_DELETED"),
        ("owner_died", "OWNER_DIED"),
        (Cause(reason="kill() was called on it", intended=True), "RAY_KILL"),
        (Cause(reason="its job ended", intended=True), "UNSPECIFIED"),
        (Cause(kind=SIGNAL, signal=11), "WORKER_DIED"),
    ],
)
def test_the_death_of_an_actor_has_rays_word(cause: object, word: str) -> None:
    assert _death_reason(cause) == word


def test_a_worker_that_is_gone_stays_in_the_list_with_its_end(world: WholeNode, driver: Peer) -> None:
    (worker, _), *_ = world.forks()
    pid = world.node.processes[worker].pid
    world.zygote.tell(Exited(pid, 11, 0))
    rows, _ = driver.ask(ask.ListRows("workers"))
    [row] = [each for each in rows if each["worker_id"] == worker.hex()]
    assert (row["is_alive"], row["exit_type"], row["pid"]) == (False, "SYSTEM_ERROR", pid)
    assert "SIGSEGV" in row["exit_detail"] and row["end_time_ms"] >= row["start_time_ms"]
    kinds = {each["worker_type"]: each["state"] for each in rows if each["is_alive"]}
    assert kinds["DRIVER"] == "driver"


def test_jobs_are_listed_also_when_they_have_ended(world: WholeNode, driver: Peer) -> None:
    other = world.driver(b"driver02")
    other.close()
    world.peers.remove(other)
    rows, _ = driver.ask(ask.ListRows("jobs"))
    assert {row["job_id"]: row["status"] for row in rows} == {"01000000": "RUNNING", "02000000": "SUCCEEDED"}


def test_an_actor_is_listed_from_its_registration_to_its_death(world: WholeNode, driver: Peer) -> None:
    driver.tell(ActorRegister(ACTOR, _spec(9.0)))
    rows, _ = driver.ask(ask.ListRows("actors"))
    assert [(row["actor_id"], row["state"], row["required_resources"]) for row in rows] == [
        (ACTOR.hex(), "DEPENDENCIES_UNREADY", {"CPU": 9.0})
    ]
    assert world.node.requests.listings.creations()[0]["state"] == "PENDING_ARGS_AVAIL"
    driver.tell(ActorStart(ACTOR, None, None))
    assert world.node.requests.listings.creations()[0]["state"] == "PENDING_NODE_ASSIGNMENT"
    driver.tell(ActorKill(ACTOR, no_restart=True))
    [row], _ = driver.ask(ask.ListRows("actors"))
    context = row["death_cause"]["actor_died_error_context"]
    assert row["state"] == "DEAD" and context["never_started"] and context["class_name"] == "Counter"
    [fact] = world.node.requests.listings.creations()
    assert (fact["state"], fact["error"], fact["name"]) == ("FAILED", "ACTOR_DIED", "Counter.__init__")
    [dead] = driver.ask(ask.Status())["dead_actors"]
    assert dead["actor_id"] == ACTOR.hex() and dead["ago_s"] >= 0


def test_a_hidden_actor_has_no_row_among_the_tasks(world: WholeNode, driver: Peer) -> None:
    driver.tell(ActorRegister(ACTOR, _spec(hidden=True)))
    assert world.node.requests.listings.creations() == []


def test_the_head_is_the_first_node(driver: Peer) -> None:
    [row], _ = driver.ask(ask.ListRows("nodes"))
    assert (row["node_id"], row["is_head_node"], row["state"], row["labels"]) == (
        NODE.hex(),
        True,
        "ALIVE",
        {"zone": "a"},
    )
    [shown] = driver.ask(ask.Nodes())
    assert (shown["NodeID"], shown["Alive"], shown["DeathReason"]) == (NODE.hex(), True, 0)


def test_only_environments_that_ask_for_something_are_listed(driver: Peer) -> None:
    driver.tell(Env("01000000:x", {"env_vars": {"A": "1"}}, b""))
    rows, _ = driver.ask(ask.ListRows("runtime-envs"))
    assert [(row["runtime_env"], row["success"], row["ref_cnt"]) for row in rows] == [
        ({"env_vars": {"A": "1"}}, True, 0)
    ]


def test_a_group_says_what_it_waits_for(driver: Peer) -> None:
    driver.ask(ask.PgCreate([{"GPU": 1.0}], "PACK", "g", None, (), "ns", b"", ""))
    [row], _ = driver.ask(ask.ListRows("placement-groups"))
    assert (row["name"], row["creator_job_id"], row["is_detached"]) == ("g", "01000000", False)
    assert row["bundles"][0]["unit_resources"] == {"GPU": 1.0}
    assert row["stats"]["scheduling_state"] in ("INFEASIBLE", "NO_RESOURCES") and row["stats"]["why"]
