"""Serve's verbs in the user's process: what they hand the controller, and what they say of wrong arguments."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

import sundog
from sundog import serve
from sundog.exceptions import ActorDiedError, RayTaskError
from sundog.serve import verbs
from sundog.serve.config import ControllerOptions, ProxyLocation
from sundog.serve.exceptions import DeploymentNotFoundError, RayServeException
from sundog.serve.rows import DeploymentID
from sundog.serve.schema import LoggingConfig, ServeStatus
from sundog.serve.specs import AppSpec, ServeOptions
from sundog.serve.targets import DeploymentTargets
from tests.serve.fakes import FakeActor, FakeMethod, FakeSession, enter_replica

CONTROLLER = "SERVE_CONTROLLER_ACTOR"


@serve.deployment
class Shop:
    def __init__(self, store: object = None) -> None:
        self.store = store


@serve.deployment
def store() -> str:
    return "tea"


class FakeRouter:
    def __init__(self) -> None:
        self.known = threading.Event()
        self.known.set()
        self.looks: list[DeploymentTargets] = []
        self.late = 0  # so many looks before the news of the second replica is here

    def knows(self, targets: DeploymentTargets) -> bool:
        self.looks.append(targets)
        return len(self.looks) > self.late


class FakeClient:
    def __init__(self) -> None:
        self.handles: dict[tuple[str, str], Any] = {}
        self.targets = DeploymentTargets()
        self.controller = FakeActor(
            deploy=None, delete=None, wait_for={}, has_deployment=True, listen=("1", self.targets)
        )
        self.process = "1"
        self.one_router = FakeRouter()

    def router(self, _deployment: DeploymentID) -> FakeRouter:
        return self.one_router


class FakeControl:
    session = {"path": "/session"}


class FakeOwner:
    control = FakeControl()


class FakeEngine:
    owner = FakeOwner()


class FakeContext:
    """The runtime context of a job with this environment."""

    def __init__(self, env: dict[str, object]) -> None:
        self.runtime_env = env


class FakeEngines:
    def current(self) -> FakeEngine:
        return FakeEngine()


class FakeTime:
    """The clock of the module alone: a sleep returns at once."""

    def __init__(self) -> None:
        self.sleep: Callable[[float], None] = lambda _seconds: None
        self.monotonic: Callable[[], float] = lambda: 0.0


class Scene:
    """A session in which Serve runs, or not yet."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, runs: bool = True) -> None:
        self.session = FakeSession(monkeypatch)
        self.client, self.runs, self.notes = FakeClient(), runs, cast(list[str], [])
        self.controller = self.client.controller
        self.disconnected = 0
        monkeypatch.setattr(verbs.clients, "connect", self.connect)
        monkeypatch.setattr(verbs.clients, "disconnect", self.disconnect)
        monkeypatch.setattr(verbs.notices, "note", self.notes.append)
        monkeypatch.setattr(verbs, "engines", FakeEngines())
        self.time = FakeTime()
        monkeypatch.setattr(verbs, "time", self.time)
        self.has_session = True
        monkeypatch.setattr(sundog, "is_initialized", lambda: self.has_session)
        monkeypatch.setattr(sundog, "get_runtime_context", lambda: FakeContext({}))

    def connect(self, or_none: bool = False) -> FakeClient | None:
        return None if or_none and not self.runs else self.client

    def disconnect(self) -> None:
        self.disconnected += 1

    def options(self) -> ServeOptions:
        """What the controller was started with."""
        ((folder, options), _) = self.session.made.given[0]
        assert folder == "/session" and isinstance(options, ServeOptions)
        return options


@pytest.fixture
def scene() -> Iterator[Scene]:
    with pytest.MonkeyPatch.context() as patch:  # undone before the leak check asks whether a session runs
        yield Scene(patch)


@pytest.fixture
def new() -> Iterator[Scene]:
    """Before Serve has been started."""
    with pytest.MonkeyPatch.context() as patch:
        found = Scene(patch, runs=False)
        found.session.made.actor.ready = FakeMethod(("127.0.0.1", 8000))
        yield found


# ---------------------------------------------------------------------- start
def test_start_makes_a_controller_that_outlives_the_program(new: Scene) -> None:
    serve.start(http_options={"port": 8123}, logging_config={"log_level": "DEBUG"})
    (chosen,) = new.session.made.chosen
    assert (chosen["name"], chosen["namespace"], chosen["lifetime"]) == (CONTROLLER, "serve", "detached")
    assert chosen["get_if_exists"] and chosen["max_restarts"] == -1 and "runtime_env" not in chosen
    options = new.options()
    assert options.http.port == 8123 and options.location == ProxyLocation.EveryNode
    assert options.logging.log_level == "DEBUG"


@pytest.mark.parametrize(
    ("given", "location"),
    [
        ({"proxy_location": "Disabled"}, ProxyLocation.Disabled),
        ({"proxy_location": "HeadOnly"}, ProxyLocation.HeadOnly),
        ({"http_options": {"location": "HeadOnly"}}, ProxyLocation.HeadOnly),
        ({"proxy_location": "EveryNode", "http_options": {"location": "HeadOnly"}}, ProxyLocation.EveryNode),
        ({"detached": True}, ProxyLocation.EveryNode),
    ],
)
@pytest.mark.filterwarnings("ignore:`location` in HTTPOptions is deprecated")
def test_where_proxies_run_is_said_in_either_of_two_places(
    new: Scene, given: Any, location: ProxyLocation
) -> None:
    serve.start(**given)
    assert new.options().location == location


def test_the_controller_has_the_environment_that_it_is_given(new: Scene) -> None:
    serve.start(controller_options={"runtime_env": {"env_vars": {"KIND": "tea"}}})
    assert new.session.made.chosen[0]["runtime_env"] == {"env_vars": {"KIND": "tea"}}
    serve.start(controller_options=ControllerOptions())
    assert "runtime_env" not in new.session.made.chosen[1]


def test_wrong_options_of_start_are_refused_before_anything_starts(new: Scene) -> None:
    wrong: Any = "8000"
    with pytest.raises(TypeError, match="unexpected keyword argument 'port'"):
        serve.start(port=8000)
    with pytest.raises(TypeError, match="http_options takes a dict or HTTPOptions, not '8000'"):
        serve.start(http_options=wrong)
    with pytest.raises(NotImplementedError, match="no gRPC proxy: use HTTP, or call deployments through"):
        serve.start(grpc_options={"grpc_servicer_functions": ["a.b"]})
    with pytest.raises(ValueError, match="nowhere"):
        serve.start(proxy_location="nowhere")
    assert new.session.made.given == []


def test_start_leaves_a_serve_that_runs_as_it_is_and_says_so_only_to_those_who_want_it_otherwise(
    scene: Scene,
) -> None:
    serve.start()
    assert scene.notes == []
    serve.start(http_options={"port": 1})
    assert scene.notes == ["Serve is running already in this session: its HTTP options stay as they are."]
    assert scene.session.made.given == []


@pytest.mark.parametrize(
    ("cause", "raised"),
    [(RuntimeError("Serve cannot listen"), RuntimeError), (KeyError("tea"), RayTaskError)],
)
def test_a_controller_that_cannot_start_is_removed_and_its_reason_is_raised(
    new: Scene, cause: Exception, raised: type[Exception]
) -> None:
    new.session.made.actor.ready = FakeMethod(RayTaskError("ready", "trace", cause))
    with pytest.raises(raised) as told:
        serve.start()
    assert new.session.killed == [new.session.made.actor]
    assert told.value is cause or isinstance(told.value, RayTaskError)


# ---------------------------------------------------------------------- run
def deployed(scene: Scene) -> list[AppSpec]:
    (((specs,), _),) = scene.controller.deploy.calls
    return cast(list[AppSpec], specs)


def test_an_application_is_handed_over_with_its_code_pickled_and_its_graph(scene: Scene) -> None:
    handle = serve.run(
        Shop.options(max_replicas_per_node=2).bind(store.bind()), name="shop", route_prefix="/shop"
    )
    (spec,) = deployed(scene)
    assert (spec.name, spec.route_prefix, spec.ingress) == ("shop", "/shop", "Shop")
    rows = {each.name: each for each in spec.deployments}
    assert rows["Shop"].downstream == ["store"] and rows["store"].downstream == []
    assert rows["Shop"].process["max_replicas_per_node"] == 2
    definition, (bound,), _ = pickle.loads(rows["Shop"].code)
    assert definition.__name__ == "Shop" and bound.deployment_name == "store" and bound.app_name == "shop"
    assert repr(handle) == "DeploymentHandle(deployment='Shop', app='shop')"
    assert scene.controller.wait_for.calls == [((["shop"],), {})]


def test_run_many_waits_for_all_and_returns_their_handles_in_order(scene: Scene) -> None:
    targets = [
        serve.RunTarget(Shop.bind(), "a", "/a", {"log_level": "DEBUG"}),
        serve.RunTarget(store.bind(), "b", None),
    ]
    handles = serve.run_many(targets)
    assert [each.app_name for each in handles] == ["a", "b"]
    one, two = deployed(scene)
    assert one.logging == LoggingConfig(log_level="DEBUG") and (two.logging, two.route_prefix) == (None, None)
    assert scene.controller.wait_for.calls == [((["a", "b"],), {})]
    assert serve.run_many(targets, wait_for_applications_running=False) == handles  # the same ones
    assert len(scene.controller.wait_for.calls) == 1


def test_run_waits_until_this_process_knows_every_replica_that_runs(scene: Scene) -> None:
    client = scene.client
    client.one_router.late = 1
    serve.run(Shop.bind(), name="shop")
    assert client.one_router.looks == [client.targets, client.targets], "at first one replica was not known"
    assert client.controller.listen.calls == [((("deployment", DeploymentID("Shop", "shop")), None, "1"), {})]


@pytest.mark.parametrize(
    ("target", "error", "told"),
    [
        (serve.RunTarget(cast(Any, Shop)), TypeError, "takes what Deployment.bind.. returns"),
        (
            serve.RunTarget(Shop.bind(), name=""),
            RayServeException,
            "a name of at least one character, not ''",
        ),
        (
            serve.RunTarget(Shop.bind(), route_prefix="shop"),
            ValueError,
            "route_prefix begins with '/', not 'shop'",
        ),
    ],
)
def test_what_cannot_be_run_is_refused_before_serve_is_asked(
    scene: Scene, target: Any, error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        serve.run_many([target])
    with pytest.raises(ValueError, match="No applications provided"):
        serve.run_many([])
    assert scene.controller.deploy.calls == []


def test_code_that_cannot_be_pickled_is_told_with_the_name_of_its_deployment(scene: Scene) -> None:
    with pytest.raises(TypeError, match=r"Pickling 'Shop', a deployment, failed: .*inspect_serializability"):
        serve.run(Shop.bind(each for each in "tea"))


def test_an_external_scaler_and_autoscaling_exclude_each_other(scene: Scene) -> None:
    scaled = Shop.options(autoscaling_config={"max_replicas": 3})
    with pytest.raises(
        ValueError, match="set to True for application 'default', but some of its deployments"
    ):
        serve.run(scaled.bind(), external_scaler_enabled=True)
    serve.run(Shop.bind(), external_scaler_enabled=True)
    assert deployed(scene)[0].external_scaler


def test_an_application_that_cannot_be_deployed_is_an_error_with_its_message(scene: Scene) -> None:
    scene.controller.wait_for = FakeMethod({"default": ("DEPLOY_FAILED", "no replica came up")})
    with pytest.raises(RuntimeError, match="Deploying application default failed: no replica came up"):
        serve.run(Shop.bind())


# ---------------------------------------------------------------------- asking the controller
def test_a_controller_that_comes_back_is_asked_again(scene: Scene) -> None:
    method = FakeMethod(ActorDiedError("away"), ActorDiedError("away"), "here")
    assert verbs.call(cast(Any, method.remote)) == "here" and len(method.calls) == 3


def test_a_controller_that_stays_away_is_told_of(scene: Scene) -> None:
    now = iter(range(0, 1000, 20))
    scene.time.monotonic = lambda: float(next(now))
    method = FakeMethod(ActorDiedError("away"))
    with pytest.raises(ActorDiedError, match="away"):
        verbs.call(cast(Any, method.remote))
    assert len(method.calls) == 2


@pytest.mark.parametrize("cause", [RayServeException("no"), ValueError("no"), RuntimeError("no")])
def test_errors_of_serve_come_without_the_traceback_of_the_controller(scene: Scene, cause: Exception) -> None:
    method = FakeMethod(RayTaskError("deploy", "trace", cause))
    with pytest.raises(type(cause)) as told:
        verbs.call(cast(Any, method.remote))
    assert told.value is cause
    with pytest.raises(RayTaskError):
        verbs.call(cast(Any, FakeMethod(RayTaskError("deploy", "trace", KeyError("bug"))).remote))


# ---------------------------------------------------------------------- the rest
def test_delete_waits_until_the_application_is_gone_unless_told_otherwise(scene: Scene) -> None:
    serve.delete("shop", _blocking=False)
    assert scene.controller.wait_for.calls == []
    serve.delete("shop")
    assert scene.controller.delete.calls == [((["shop"],), {})] * 2
    assert scene.controller.wait_for.calls == [((["shop"], True), {})]


def test_the_status_without_serve_is_empty(new: Scene) -> None:
    assert serve.status() == ServeStatus()
    new.runs, new.controller.status = True, FakeMethod("a status")
    assert cast(object, serve.status()) == "a status"


def test_a_handle_is_the_same_each_time_and_unknown_names_are_errors(scene: Scene) -> None:
    scene.controller.ingress_of = FakeMethod("Shop", "Shop", None)
    assert serve.get_app_handle("shop") is serve.get_app_handle("shop")
    assert serve.get_deployment_handle("Shop", "shop") is scene.client.handles["Shop", "shop"]
    with pytest.raises(RayServeException, match="Application 'none' does not exist"):
        serve.get_app_handle("none")
    scene.controller.has_deployment = FakeMethod(False)
    with pytest.raises(DeploymentNotFoundError, match=r"name='Shop', app='none'\) does not exist"):
        serve.get_deployment_handle("Shop", "none")
    assert serve.get_deployment_handle("Shop", "none", _check_exists=False).app_name == "none"


def test_a_deployment_is_looked_for_in_the_callers_own_application(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RayServeException, match="runs in no Serve application, so give app_name"):
        serve.get_deployment_handle("Shop")
    enter_replica(monkeypatch)
    assert serve.get_deployment_handle("store").deployment_id == DeploymentID("store", "shop")


def test_shutdown_ends_the_controller_and_waits_until_its_name_is_free(scene: Scene) -> None:
    controller = FakeActor(shut_down=ActorDiedError("just died"))
    scene.session.named[CONTROLLER] = controller
    looks = []

    def sleep(_seconds: float) -> None:
        looks.append(1)
        if len(looks) == 3:
            scene.session.named.clear()

    scene.time.sleep = sleep
    serve.shutdown()
    assert scene.session.killed == [controller] and len(looks) == 3 and scene.disconnected == 1


def test_shutdown_without_serve_or_without_a_session_is_no_error(scene: Scene) -> None:
    serve.shutdown()
    scene.has_session = False
    serve.shutdown()
    assert scene.session.killed == [] and scene.disconnected == 2


def test_ctrl_c_in_a_blocking_run_shuts_serve_down(scene: Scene) -> None:
    def interrupted(_seconds: float) -> None:
        raise KeyboardInterrupt

    scene.time.sleep = interrupted
    serve.run(Shop.bind(), blocking=True)
    assert scene.notes == ["Serve is shutting down."] and scene.disconnected == 1


def test_shutdown_ends_the_thread_of_local_testing_mode(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = []

    class FakeLocal:
        def stop(self) -> None:
            stopped.append(1)

    monkeypatch.setitem(sys.modules, "sundog.serve.local", cast(Any, FakeLocal()))
    serve.shutdown()
    assert stopped == [1]
