"""Actors and ended workers as Ray tells them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from sundog.ray_engine.residents import Residents, actor_row, worker_row

ACTOR = b"actor-01" + b"job-"
OWNER = b"owner--1"


class Cause(SimpleNamespace):
    """As Ray's: at most one of its fields is set."""

    def WhichOneof(self, name: str) -> str | None:
        assert name == "context"
        return next(iter(vars(self)), None)


def actor(state: int = 2, namespace: str = "tests", cause: Any = None) -> Any:
    return SimpleNamespace(
        actor_id=ACTOR,
        job_id=b"job-",
        class_name="Counter",
        name="counter",
        state=state,
        ray_namespace=namespace,
        is_detached=False,
        required_resources={"CPU": 1.0},
        pid=7,
        address=SimpleNamespace(node_id=b"node"),
        serialized_runtime_env="{}",
        num_restarts=0,
        num_restarts_due_to_lineage_reconstruction=0,
        num_restarts_due_to_node_preemption=0,
        placement_group_id=b"",
        repr_name="",
        call_site="",
        death_cause=cause or Cause(),
    )


def worker(is_alive: bool = False, worker_type: int = 0, id_: bytes = b"worker-1" + bytes(20)) -> Any:
    address = SimpleNamespace(worker_id=id_, node_id=b"node", ip_address="10.0.0.1")
    return SimpleNamespace(
        is_alive=is_alive,
        worker_type=worker_type,
        worker_address=address,
        exit_type=0,
        exit_detail="killed",
        pid=7,
    )


def whole(task: bytes) -> bytes:
    return OWNER + task[8:]


def test_an_actor_goes_by_the_id_of_the_task_that_created_it() -> None:
    row = actor_row(actor(), whole)
    assert row["actor_id"] == (OWNER + b"actor-01").hex()
    assert (row["state"], row["name"], row["node_id"]) == ("ALIVE", "counter", b"node".hex())
    assert row["placement_group_id"] is None and row["death_cause"] is None


def test_a_dead_actor_has_the_text_of_its_death() -> None:
    died = Cause(actor_died_error_context=SimpleNamespace(error_message="it was killed"))
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
