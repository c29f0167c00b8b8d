"""Errors that Serve raises to its users.

Owns the classes and their texts. ::

    RayServeException
    ├── BackPressureError                            too many requests wait at this caller
    ├── RequestCancelledError (TaskCancelledError)
    ├── DeploymentNotFoundError (KeyError)           no application has a deployment of that name
    ├── DeploymentUnavailableError                   the deployment failed to deploy
    ├── ReplicaUnavailableError                      the replica that was chosen is gone
    └── gRPCStatusError
"""

from __future__ import annotations

from sundog.exceptions import TaskCancelledError


class RayServeException(Exception):
    """Base of Serve's errors."""


class BackPressureError(RayServeException):
    """The request was dropped: as many as may wait (`max_queued_requests`) do wait already."""

    def __init__(
        self,
        num_queued_requests: int,
        max_queued_requests: int,
        status_code: int = 503,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(num_queued_requests, max_queued_requests, status_code, retry_after_s)
        self.message = (
            f"Request dropped due to backpressure: {num_queued_requests} requests wait already, and "
            f"max_queued_requests is {max_queued_requests}. Send it again later."
        )
        self.status_code = status_code
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        return self.message


class DeploymentNotFoundError(RayServeException, KeyError):
    """There is no such deployment. A KeyError too, as in Ray Serve."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""  # a KeyError would put it in quotes


class RequestCancelledError(RayServeException, TaskCancelledError):
    """The request was cancelled."""

    def __init__(self, request_id: str | None = None) -> None:
        Exception.__init__(self, request_id)
        self._request_id = request_id

    def __str__(self) -> str:
        return f"Request {self._request_id} was cancelled." if self._request_id else "Request was cancelled."

    def __reduce__(self) -> tuple[object, ...]:
        return (RequestCancelledError, (self._request_id,))


class DeploymentUnavailableError(RayServeException):
    """The deployment failed to deploy, so nothing can answer."""

    def __init__(self, deployment_id: object) -> None:
        super().__init__(deployment_id)
        self._deployment_id = deployment_id

    @property
    def message(self) -> str:
        """What happened."""
        return f"{self._deployment_id} cannot answer: its deployment has failed. `serve.status()` says why."

    def __str__(self) -> str:
        return self.message


class ReplicaUnavailableError(RayServeException):
    """The replica that was chosen for a request is gone."""

    def __init__(self, replica_id: str) -> None:
        super().__init__(replica_id)
        self._replica_id = replica_id

    @property
    def message(self) -> str:
        """What happened."""
        return f"Replica {self._replica_id} is no longer available."

    def __str__(self) -> str:
        return self.message


class gRPCStatusError(RayServeException):
    """An error with the gRPC status that a client is to see."""

    def __init__(
        self, original_exception: BaseException, code: object = None, details: str | None = None
    ) -> None:
        super().__init__(str(original_exception))
        self.original_exception = original_exception
        self.grpc_code = code
        self.grpc_details = details

    def __reduce__(self) -> tuple[object, ...]:
        return (gRPCStatusError, (self.original_exception, self.grpc_code, self.grpc_details))
