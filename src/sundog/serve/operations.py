"""What the command line and a REST server do with a running Serve: plain values in, plain values out.

Owns no state: each function asks the controller of the session that this process is in. `details`, `apply` and
`clear` are GET, PUT and DELETE of `/api/serve/applications/`. Runs in any process; blocking.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sundog.serve import client as clients
from sundog.serve.rows import DeploymentID
from sundog.serve.schema import ServeDeploySchema, ServeInstanceDetails
from sundog.serve.specs import Revision
from sundog.serve.verbs import call, shutdown, start, wait_until_running

if TYPE_CHECKING:
    from sundog.plain import JsonObject


def details() -> JsonObject:
    """All that runs; empty when Serve does not."""
    client = clients.connect(or_none=True)
    if client is None:
        return ServeInstanceDetails.get_empty_schema_dict()
    found: dict[str, object] = call(lambda: client.controller.details.remote())
    return found


def apply(config: dict[str, object], *, wait: bool = False) -> list[str]:
    """Run what a config says; returns the names of its applications.

    Raises:
        ValueError: the config is wrong.
        RuntimeError: with `wait`, an application has failed to deploy.
    """
    schema = ServeDeploySchema.model_validate(config)
    start(
        proxy_location=schema.proxy_location if "proxy_location" in schema.model_fields_set else None,
        http_options=schema.http_options.model_dump() if "http_options" in schema.model_fields_set else None,
        logging_config=schema.logging_config,
    )
    client = clients.connect()
    call(lambda: client.controller.deploy_config.remote(schema.model_dump(exclude_unset=True)))
    names = [each.name for each in schema.applications]
    if wait:
        wait_until_running(names)
    return names


def clear() -> None:
    """End all applications, and Serve."""
    shutdown()


def roll_back(app: str, revision: int | None = None) -> int:
    """Return an application to an earlier revision, by default the last one that ran; returns its number.

    Raises:
        ValueError: there is none.
    """
    client = clients.connect()
    found: int = call(lambda: client.controller.roll_back.remote(app, revision))
    return found


def promote(app: str) -> None:
    """Let the canary of an application take over."""
    client = clients.connect()
    call(lambda: client.controller.promote.remote(app))


def history(app: str) -> list[Revision]:
    """What was deployed when, oldest first.

    Raises:
        ValueError: the application does not run.
    """
    client = clients.connect()
    found: list[Revision] = call(lambda: client.controller.history.remote(app))
    return found


def scale(app: str, deployment: str, count: int) -> None:
    """Set a deployment's number of replicas from outside.

    Raises:
        ValueError: there is no such deployment, or its application does not allow it.
    """
    client = clients.connect()
    call(lambda: client.controller.scale.remote(DeploymentID(deployment, app), count))
