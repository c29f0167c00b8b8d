"""Applications from configs: how builders are called, what options override, when processes stay."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from sundog import serve
from sundog.serve.config_apps import _version, call_builder, config_of, with_overrides
from sundog.serve.deployment import Application
from sundog.serve.schema import (
    DeploymentSchema,
    LoggingConfig,
    RayActorOptionsSchema,
    ServeApplicationSchema,
    ServeDeploySchema,
)


class _Model:
    """What is deployed."""


MODEL = serve.deployment(num_replicas=2, name="Model")(_Model)


class Arguments(BaseModel):
    """Typed arguments of a builder."""

    size: int


def test_a_builder_gets_the_arguments_of_the_config() -> None:
    seen: list[object] = []

    def plain(args: dict[str, object]) -> Application:
        seen.append(args)
        return MODEL.bind()

    def typed(args: Arguments) -> Application:
        seen.append(args.size)
        return MODEL.bind()

    assert isinstance(call_builder(plain, {"size": "3"}), Application)
    typed.__annotations__["args"] = Arguments
    assert isinstance(call_builder(typed, {"size": "3"}), Application)
    assert seen == [{"size": "3"}, 3]


def no_arguments() -> Application:
    return MODEL.bind()


def two_arguments(a: object, b: object) -> Application:
    return MODEL.bind()


@pytest.mark.parametrize(
    ("found", "args", "error", "words"),
    [
        (MODEL.bind(), {"a": 1}, ValueError, "takes no arguments"),
        (MODEL, {}, TypeError, "bind it with"),
        (Arguments, {}, TypeError, "must name an application"),
        (no_arguments, {"a": 1}, TypeError, "takes no arguments"),
        (two_arguments, {}, TypeError, "at most one parameter"),
        (lambda: 3, {}, TypeError, "not a int"),
    ],
)
def test_what_builds_no_application_is_refused(
    found: object, args: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        call_builder(found, args)


def test_options_of_a_config_come_before_those_of_the_code() -> None:
    made = with_overrides(MODEL, {"num_replicas": 5, "ray_actor_options": RayActorOptionsSchema(num_cpus=3)})
    assert made.num_replicas == 5 and made.ray_actor_options["num_cpus"] == 3
    assert MODEL.num_replicas == 2


def version(app: dict[str, object], **row: object) -> str:
    schema = ServeApplicationSchema.model_validate({"import_path": "m:app", "route_prefix": "/", **app})
    return _version(schema, DeploymentSchema.model_validate({"name": "Model", **row}))


def test_replicas_stay_when_only_what_they_can_take_has_changed() -> None:
    assert version({}) == version({}, num_replicas=3, user_config={"a": 1})
    assert version({}) != version({}, ray_actor_options={"num_cpus": 2})
    assert version({}) != version({"args": {"a": 1}})


def test_a_config_for_applications_has_what_the_code_says() -> None:
    made = config_of([(MODEL.bind(), "app1", "/", "m:app")])
    (app,) = made["applications"]
    assert (app["name"], app["route_prefix"], app["import_path"]) == ("app1", "/", "m:app")
    assert app["deployments"] == [{"name": "Model", "num_replicas": 2}]


def test_a_built_config_has_the_autoscaling_options_that_were_chosen_and_can_be_deployed_as_it_is() -> None:
    chosen = {"min_replicas": 1, "max_replicas": 3}
    scaled = serve.deployment(autoscaling_config=chosen, name="Scaled")(_Model)
    made = config_of([(scaled.bind(), "app1", "/", "m:app")])
    assert made["applications"][0]["deployments"] == [{"name": "Scaled", "autoscaling_config": chosen}]
    read = ServeDeploySchema.model_validate(made)
    assert read.logging_config == LoggingConfig()
    assert read.model_dump(exclude_unset=True, mode="json") == made
