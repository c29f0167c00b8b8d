"""The names of deployments and replicas, and what rows stand for when nothing is given."""

from __future__ import annotations

import pickle

import pytest

from sundog.serve.rows import (
    DEFAULT,
    UNSET,
    DeploymentHandleSource,
    DeploymentID,
    DeploymentStatus,
    ReplicaID,
    ReplicaState,
    RequestMetadata,
    RequestProtocol,
    random_name,
)


def test_a_deployment_is_of_the_default_application_and_says_so() -> None:
    where = DeploymentID("Model")
    assert str(where) == repr(where) == "Deployment(name='Model', app='default')"
    assert where == DeploymentID("Model", "default") != DeploymentID("Model", "shop")


def test_a_replica_has_the_name_of_its_actor_and_one_for_people() -> None:
    replica = ReplicaID("ab12", DeploymentID("Model", "shop"))
    assert replica.to_full_id_str() == "SERVE_REPLICA::shop#Model#ab12"
    assert str(replica) == repr(replica) == "Replica(id='ab12', deployment='Model', app='shop')"


def test_ids_are_keys_of_dicts_in_every_process() -> None:
    replica = ReplicaID("ab12", DeploymentID("Model", "shop"))
    assert {replica: 1}[pickle.loads(pickle.dumps(replica))] == 1
    assert len({replica, ReplicaID("ab12", DeploymentID("Model"))}) == 2


def test_an_option_that_was_not_given_stays_itself_when_it_travels() -> None:
    assert pickle.loads(pickle.dumps(UNSET)) is UNSET is DEFAULT.VALUE
    assert UNSET is not None


@pytest.mark.parametrize("length", [8, 1, 20])
def test_random_names_have_the_length_asked_for_and_characters_that_any_name_may_have(length: int) -> None:
    name = random_name(length)
    assert len(name) == length and name.isascii() and name.isalnum() and name == name.lower()


def test_random_names_differ() -> None:
    assert len({random_name() for _ in range(100)}) == 100


def test_states_are_texts_for_json() -> None:
    for kind in (ReplicaState, DeploymentStatus, DeploymentHandleSource):
        assert all(each.value == each.name for each in kind)
    assert ReplicaState("RUNNING") is ReplicaState.RUNNING and RequestProtocol("gRPC") is RequestProtocol.GRPC


def test_a_request_calls_the_deployment_itself_unless_a_method_is_named() -> None:
    meta = RequestMetadata("one", "two")
    assert (meta.call_method, meta.is_streaming, meta.is_http_request) == ("__call__", False, False)
