"""Actors and ended workers as Ray tells them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sundog.ray_engine.residents import Residents, actor_row, worker_row

ACTOR = b"actor-01" + b"job-"
OWNER = b"owner--1"


@dataclass
class Context:
    """Ray's message about one kind of death."""

    error_message: str


@dataclass
class Cause:
    """Ray's message about a death: at most one of its contexts is set."""

    actor_died_error_context: Context | None = None

    def WhichOneof(self, name: str) -> str | None:
        assert name == "context"
        return None if self.actor_died_error_context is None else "actor_died_error_context"


@dataclass
class Address:
    """Ray's message about where a process is."""

    worker_id: bytes = b""
    node_id: bytes = b"node"
    ip_address: str = "10.0.0.1"


@dataclass
class ActorMessage:
    """Ray's message about an actor."""

    state: int
    ray_namespace: str
    death_cause: Cause
    actor_id: bytes = ACTOR
    job_id: bytes = b"job-"
    class_name: str = "Counter"
    name: str = "counter"
    is_detached: bool = False
    required_resources: dict[str, float] = field(default_factory=lambda: {"CPU": 1.0})
    pid: int = 7
    address: Address = field(default_factory=Address)
    serialized_runtime_env: str = "{}"
    num_restarts: int = 0
    num_restarts_due_to_lineage_reconstruction: int = 0
    num_restarts_due_to_node_preemption: int = 0
    placement_group_id: bytes = b""
    repr_name: str = ""
    call_site: str = ""


@dataclass
class WorkerMessage:
    """Ray's message about a worker."""

    is_alive: bool
    worker_type: int
    worker_address: Address
    exit_type: int = 0
    exit_detail: str = "killed"
    pid: int = 7


def actor(state: int = 2, namespace: str = "tests", cause: Cause | None = None) -> Any:
    return ActorMessage(state, namespace, cause or Cause())


def worker(is_alive: bool = False, worker_type: int = 0, id_: bytes = b"worker-1" + bytes(20)) -> Any:
    return WorkerMessage(is_alive, worker_type, Address(id_))


def whole(task: bytes) -> bytes:
    return OWNER + task[8:]


def test_an_actor_goes_by_the_id_of_the_task_that_created_it() -> None:
    row = actor_row(actor(), whole)
    assert row["actor_id"] == (OWNER + b"actor-01").hex()
    assert (row["state"], row["name"], row["node_id"]) == ("ALIVE", "counter", b"node".hex())
    assert row["placement_group_id"] is None and row["death_cause"] is None


def test_a_dead_actor_has_the_text_of_its_death() -> None:
    died = Cause(Context("it was killed"))
    row = actor_row(actor(4, cause=died), whole)
    assert row["state"] == "DEAD"
    assert row["death_cause"] == {"actor_died_error_context": {"error_message": "it was killed"}}


def test_only_actors_that_changed_are_told_again_and_home_never() -> None:
    residents = Residents()
    told = [actor(1), actor(2, namespace="_sundog")]
    assert [row["state"] for row in residents.changed(told, whole)] == ["PENDING_CREATION"]
    assert residents.changed(told, whole) == []
    assert [row["state"] for row in residents.changed([actor(2)], whole)] == ["ALIVE"]
    assert residents.by_state() == {"ALIVE": 1}


def test_a_worker_of_this_job_that_ended_is_told_once() -> None:
    residents = Residents()
    told = [worker(), worker(is_alive=True, id_=b"worker-2"), worker(worker_type=1, id_=b"driver-1")]
    ours = {b"worker-1", b"worker-2", b"driver-1"}
    assert residents.ended(told, ours) == [worker_row(worker())]
    assert residents.ended(told, ours) == []
    assert Residents().ended(told, {b"worker-9"}) == []
    assert worker_row(worker())["exit_type"] == "SYSTEM_ERROR"
