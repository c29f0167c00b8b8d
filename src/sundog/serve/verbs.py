"""Serve's verbs: start, run, delete, status, shutdown, and handles by name.

Owns what the user's process does for them. Runs in any process; blocking, but for `shutdown_async`.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sundog
from sundog import engines, notices
from sundog.exceptions import RayActorError, RayTaskError
from sundog.serve import _needs
from sundog.serve import client as clients
from sundog.serve.build import build
from sundog.serve.config import ControllerOptions, HTTPOptions, ProxyLocation, gRPCOptions
from sundog.serve.context import _get_internal_replica_context
from sundog.serve.deployment import Application, Deployment
from sundog.serve.described import spec_of
from sundog.serve.exceptions import DeploymentNotFoundError, RayServeException
from sundog.serve.handle import DeploymentHandle
from sundog.serve.imports import setting
from sundog.serve.rows import CONTROLLER_NAME, DEFAULT_APP, NAMESPACE, DeploymentID
from sundog.serve.schema import LoggingConfig, ServeStatus, check_route_prefix
from sundog.serve.specs import ServeOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from sundog.plain import JsonObject
    from sundog.refs import ObjectRef
    from sundog.serve.client import Client

    T = TypeVar("T")

_KNOWN_S = 5.0  # how long to wait until the replicas of a running application are known here
_LOOK_S = 0.005


@dataclass(frozen=True)
class RunTarget:
    """One of the applications of `run_many`."""

    target: Application
    name: str = DEFAULT_APP
    route_prefix: str | None = "/"
    logging_config: JsonObject | LoggingConfig | None = None
    external_scaler_enabled: bool = False


def _logging(given: JsonObject | LoggingConfig | None) -> LoggingConfig | None:
    return LoggingConfig(**given) if isinstance(given, dict) else given


def start(
    proxy_location: ProxyLocation | str | None = None,
    http_options: JsonObject | HTTPOptions | None = None,
    grpc_options: JsonObject | gRPCOptions | None = None,
    logging_config: JsonObject | LoggingConfig | None = None,
    tracing_config: object = None,
    controller_options: JsonObject | ControllerOptions | None = None,
    **given: object,
) -> None:
    """Start Serve in this session, unless it runs; `serve.run` does so by itself.

    Args:
        proxy_location: "Disabled" for no HTTP at all.
        http_options: host, port and other options of HTTP; a dict or `HTTPOptions`.
        logging_config: how Serve itself logs, and deployments that say nothing of it.

    Raises:
        RuntimeError: the port cannot be had.
    """
    given.pop("detached", None)
    if given:
        raise TypeError(f"start() got an unexpected keyword argument {next(iter(given))!r}.")
    if http_options is not None and not isinstance(http_options, (dict, HTTPOptions)):
        raise TypeError(f"http_options takes a dict or HTTPOptions, not {http_options!r}.")
    http = HTTPOptions(**http_options) if isinstance(http_options, dict) else http_options or HTTPOptions()
    if isinstance(controller_options, dict):
        controller_options = ControllerOptions(**controller_options)
    if isinstance(grpc_options, dict):
        grpc_options = gRPCOptions(**grpc_options)
    if grpc_options is not None and grpc_options.grpc_servicer_functions:
        raise NotImplementedError(
            "sundog's Serve has no gRPC proxy: use HTTP, or call deployments through handles."
        )
    location = ProxyLocation._normalize(proxy_location)
    if location is None:
        location = http.location or ProxyLocation.EveryNode
    options = ServeOptions(http, location, _logging(logging_config) or LoggingConfig())
    if clients.connect(or_none=True) is not None:
        if http_options is not None or proxy_location is not None:
            notices.note("Serve is running already in this session: its HTTP options stay as they are.")
        return
    _start_controller(options, controller_options)
    clients.connect()


def _start_controller(options: ServeOptions, given: ControllerOptions | None) -> None:
    from sundog.serve.controller import ControllerActor

    if not sundog.is_initialized():
        sundog.init(namespace=NAMESPACE)
    engine = engines.current()
    assert engine is not None
    folder: str = engine.owner.control.session["path"]
    chosen: JsonObject = {}
    if given is not None and given.runtime_env:
        chosen["runtime_env"] = given.runtime_env
    controller = (
        sundog.remote(ControllerActor)
        .options(
            name=CONTROLLER_NAME,
            namespace=NAMESPACE,
            lifetime="detached",
            num_cpus=0,
            max_restarts=-1,
            max_task_retries=-1,
            max_concurrency=15_000,
            get_if_exists=True,
            **chosen,
        )
        .remote(folder, options)
    )
    try:
        ready = controller.ready.remote()
        _needs.load("starlette.requests")  # while the controller starts: deployments will need it
        sundog.get(ready)
    except RayTaskError as error:
        sundog.kill(controller)
        _wait_gone()
        cause = error.cause
        raise (cause if isinstance(cause, RuntimeError) else error) from None


# ---------------------------------------------------------------------- run
def _check(targets: Sequence[RunTarget]) -> None:
    if not targets:
        raise ValueError("No applications provided.")
    for each in targets:
        if not each.name:
            raise RayServeException(
                f"An application needs a name of at least one character, not {each.name!r}."
            )
        if not isinstance(each.target, Application):
            raise TypeError(
                f"serve.run() takes what Deployment.bind() returns, an Application, not {each.target!r}."
            )
        check_route_prefix(each.route_prefix)


def _run_many(
    targets: Sequence[RunTarget],
    wait_for_ingress_deployment_creation: bool = True,
    wait_for_applications_running: bool = True,
    _local_testing_mode: bool = False,
    controller_options: JsonObject | ControllerOptions | None = None,
) -> list[DeploymentHandle[Any]]:
    _check(targets)
    if _local_testing_mode or setting("RAY_SERVE_FORCE_LOCAL_TESTING_MODE", 0):
        from sundog.serve.local import make_local_handle

        made = [build(each.target, each.name, make_local_handle) for each in targets]
        return [each.handles[each.ingress] for each in made]
    start(controller_options=controller_options)
    client = clients.connect()
    built = [build(each.target, each.name, _make_handle, each.route_prefix) for each in targets]
    specs = []
    for each, target in zip(built, targets):
        spec = spec_of(each)
        spec.logging = _logging(target.logging_config)
        spec.external_scaler = target.external_scaler_enabled
        if spec.external_scaler and any(
            row.config.autoscaling_config is not None for row in spec.deployments
        ):
            raise ValueError(
                f"external_scaler_enabled is set to True for application '{each.name}', but some of its deployments "
                "have autoscaling configured."
            )
        specs.append(spec)
    call(lambda: client.controller.deploy.remote(specs))
    if wait_for_applications_running:
        wait_until_running([each.name for each in targets])
        for each in built:
            _await_replicas(client, DeploymentID(each.ingress, each.name))
    return [client_handle(client, each.ingress, each.name) for each in built]


def _await_replicas(client: Client, deployment: DeploymentID) -> None:
    """Wait until this process knows all replicas that run now.

    The first call of a handle is then sent at once, and a broadcast reaches every replica. News of replicas come in
    several steps, and the router may have heard of an earlier application of the same name.
    """
    router = client.router(deployment)
    router.known.wait(_KNOWN_S)
    topic = ("deployment", deployment)
    _, targets = call(lambda: client.controller.listen.remote(topic, None, client.process))
    deadline = time.monotonic() + _KNOWN_S
    while targets is not None and not router.knows(targets) and time.monotonic() < deadline:
        time.sleep(_LOOK_S)


def call(make: Callable[[], ObjectRef[T]]) -> T:
    """Ask the controller, again if it comes back meanwhile; Serve's own errors come as they are."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return sundog.get(make())
        except RayTaskError as error:
            if isinstance(error.cause, (RayServeException, ValueError, RuntimeError)):
                raise error.cause from None
            raise
        except RayActorError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def wait_until_running(names: list[str]) -> None:
    """Wait until applications run.

    Raises:
        RuntimeError: one has failed to deploy; its message says why.
    """
    client = clients.connect()
    found = call(lambda: client.controller.wait_for.remote(names))
    for name, (status, message) in found.items():
        if status == "DEPLOY_FAILED":
            raise RuntimeError(f"Deploying application {name} failed: {message}")


def _make_handle(_deployment: Deployment, deployment: DeploymentID) -> DeploymentHandle[object]:
    return DeploymentHandle(deployment.name, deployment.app_name)


def client_handle(client: Client, deployment: str, app: str) -> DeploymentHandle[object]:
    """The handle of this process for a deployment; the same one each time."""
    key = (deployment, app)
    if key not in client.handles:
        client.handles[key] = DeploymentHandle(deployment, app)
    return client.handles[key]


def run(
    target: Application,
    blocking: bool = False,
    name: str = DEFAULT_APP,
    route_prefix: str | None = "/",
    logging_config: JsonObject | LoggingConfig | None = None,
    _local_testing_mode: bool = False,
    external_scaler_enabled: bool = False,
    controller_options: JsonObject | ControllerOptions | None = None,
    _blocking: bool = True,
) -> DeploymentHandle[Any]:
    """Run an application, or replace the version that runs; returns a handle to its ingress.

    Args:
        target: made by `Deployment.bind()`.
        blocking: stay until Ctrl-C, then shut Serve down.
        name: of the application; one that runs under this name is replaced, replica by replica.
        route_prefix: of its HTTP requests; None for no HTTP.

    Raises:
        RuntimeError: it could not be deployed.
    """
    targets = [RunTarget(target, name, route_prefix, logging_config, external_scaler_enabled)]
    handle = _run_many(
        targets,
        wait_for_applications_running=_blocking,
        _local_testing_mode=_local_testing_mode,
        controller_options=controller_options,
    )[0]
    if blocking:
        wait_for_interrupt()
    return handle


_run = run


def run_many(
    targets: Sequence[RunTarget],
    blocking: bool = False,
    wait_for_ingress_deployment_creation: bool = True,
    wait_for_applications_running: bool = True,
    _local_testing_mode: bool = False,
    controller_options: JsonObject | ControllerOptions | None = None,
) -> list[DeploymentHandle[Any]]:
    """Run several applications at once."""
    handles = _run_many(
        targets,
        wait_for_ingress_deployment_creation,
        wait_for_applications_running,
        _local_testing_mode,
        controller_options,
    )
    if blocking:
        wait_for_interrupt()
    return handles


def wait_for_interrupt() -> None:
    """Stay until Ctrl-C, then shut Serve down."""
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        notices.note("Serve is shutting down.")
        shutdown()


# ---------------------------------------------------------------------- end and look
def delete(name: str, _blocking: bool = True) -> None:
    """End an application."""
    client = clients.connect()
    call(lambda: client.controller.delete.remote([name]))
    if _blocking:
        call(lambda: client.controller.wait_for.remote([name], True))


def status() -> ServeStatus:
    """What runs."""
    client = clients.connect(or_none=True)
    if client is None:
        return ServeStatus()
    found: ServeStatus = call(lambda: client.controller.status.remote())
    return found


def shutdown() -> None:
    """End all applications and Serve itself; in local testing mode, the thread in which they run."""
    if "sundog.serve.local" in sys.modules:
        sys.modules["sundog.serve.local"].stop()
    if not sundog.is_initialized():
        clients.disconnect()
        return
    with suppress(ValueError):
        controller = sundog.get_actor(CONTROLLER_NAME, namespace=NAMESPACE)
        with suppress(RayActorError):
            sundog.get(controller.shut_down.remote())
        sundog.kill(controller)
        _wait_gone()
    clients.disconnect()


def _wait_gone() -> None:
    """The name must be free when `shutdown` returns: the next `start` would find the old controller."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            sundog.get_actor(CONTROLLER_NAME, namespace=NAMESPACE)
        except ValueError:
            return
        time.sleep(0.005)


async def shutdown_async() -> None:
    """The same without blocking an event loop."""
    await asyncio.get_running_loop().run_in_executor(None, shutdown)


def get_app_handle(name: str) -> DeploymentHandle[Any]:
    """A handle to the ingress of an application.

    Raises:
        RayServeException: there is no such application.
    """
    client = clients.connect()
    ingress = call(lambda: client.controller.ingress_of.remote(name))
    if ingress is None:
        raise RayServeException(f"Application '{name}' does not exist.")
    return client_handle(client, ingress, name)


def get_deployment_handle(
    deployment_name: str,
    app_name: str | None = None,
    _check_exists: bool = True,
    _record_telemetry: bool = True,
) -> DeploymentHandle[Any]:
    """A handle to a deployment; within a replica, of the same application by default.

    Raises:
        DeploymentNotFoundError: there is no such deployment; it is a KeyError too.
        RayServeException: no application is named.
    """
    client = clients.connect()
    if app_name is None:
        replica = _get_internal_replica_context()
        if replica is None:
            raise RayServeException(
                "This code runs in no Serve application, so give app_name, the application that has the deployment."
            )
        app_name = replica.app_name
    deployment = DeploymentID(deployment_name, app_name)
    if _check_exists and not call(lambda: client.controller.has_deployment.remote(deployment)):
        raise DeploymentNotFoundError(f"{deployment} does not exist.")
    return client_handle(client, deployment_name, app_name)
