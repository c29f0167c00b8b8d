"""Errors of Serve: their texts, and that they survive a pickle with their facts."""

from __future__ import annotations

import pickle

from sundog.exceptions import TaskCancelledError
from sundog.serve.exceptions import (
    BackPressureError,
    DeploymentNotFoundError,
    DeploymentUnavailableError,
    RayServeException,
    ReplicaUnavailableError,
    RequestCancelledError,
    gRPCStatusError,
)
from sundog.serve.rows import DeploymentID


def test_a_refused_request_tells_how_many_wait_and_when_to_come_back() -> None:
    error = pickle.loads(pickle.dumps(BackPressureError(3, 2, 429, 1.5)))
    assert "3 requests wait already, and max_queued_requests is 2" in str(error)
    assert (error.status_code, error.retry_after_s) == (429, 1.5)


def test_a_cancelled_request_is_a_cancelled_task_too() -> None:
    error = pickle.loads(pickle.dumps(RequestCancelledError("abc")))
    assert isinstance(error, TaskCancelledError) and isinstance(error, RayServeException)
    assert str(error) == "Request abc was cancelled."
    assert str(RequestCancelledError()) == "Request was cancelled."


def test_what_cannot_answer_is_named() -> None:
    for error, name in (
        (DeploymentUnavailableError(DeploymentID("model", "app")), "model"),
        (ReplicaUnavailableError("r7"), "r7"),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert name in str(again) and again.message == str(error)


def test_a_grpc_status_keeps_the_users_exception() -> None:
    error = pickle.loads(pickle.dumps(gRPCStatusError(KeyError("k"), 5, "not found")))
    assert isinstance(error.original_exception, KeyError)
    assert (error.grpc_code, error.grpc_details) == (5, "not found")


def test_a_deployment_that_is_not_there_is_a_key_error_with_a_plain_text() -> None:
    error = pickle.loads(pickle.dumps(DeploymentNotFoundError("It does not exist.")))
    assert isinstance(error, KeyError) and isinstance(error, RayServeException)
    assert str(error) == "It does not exist."
