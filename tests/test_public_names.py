"""Names and parameters that programs written for Ray 2.60 use by keyword or by import."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import pytest

import sundog
from sundog import actor, public_ids, types, util


@pytest.mark.parametrize(
    ("verb", "parameters"),
    [
        ("get", ["object_refs", "timeout", "_use_object_store"]),
        ("put", ["value", "_owner", "_tensor_transport"]),
        ("wait", ["ray_waitables", "num_returns", "timeout", "fetch_local"]),
        ("cancel", ["ray_waitable", "force", "recursive"]),
        ("kill", ["actor", "no_restart"]),
        ("get_actor", ["name", "namespace"]),
        ("shutdown", ["wait_for_processes", "_exiting_interpreter"]),
        ("timeline", ["filename"]),
    ],
)
def test_a_verb_has_the_parameters_of_rays(verb: str, parameters: list[str]) -> None:
    assert list(inspect.signature(getattr(sundog, verb)).parameters) == parameters


def test_every_public_name_of_the_package_can_be_had() -> None:
    for module in (sundog, util):
        for name in module.__all__:
            assert getattr(module, name) is not None


def test_older_names_are_the_same_classes() -> None:
    assert sundog.ObjectID is sundog.ObjectRef is types.ObjectRef
    assert sundog.FunctionID is public_ids.FunctionID
    assert sundog.ActorClassID is public_ids.ActorClassID


@pytest.mark.parametrize(
    "kind", [sundog.ActorID, sundog.JobID, sundog.NodeID, sundog.TaskID, sundog.WorkerID]
)
def test_an_id_can_be_made_again_from_what_it_shows(kind: Any) -> None:
    made = kind.from_random()
    assert kind.from_binary(made.binary()) == made == kind.from_hex(made.hex())


def test_a_job_id_is_a_number_too() -> None:
    assert sundog.JobID.from_int(7).int() == 7


def test_inheriting_from_an_actor_class_is_an_error_of_its_own_that_is_a_type_error() -> None:
    @sundog.remote
    class Base:
        pass

    with pytest.raises(actor.ActorClassInheritanceException, match="plain class") as caught:

        class Derived(Base):
            pass

    assert isinstance(caught.value, TypeError)


def test_what_belongs_to_the_class_is_there_without_an_actor() -> None:
    class Plain:
        limit = 5

        @staticmethod
        def twice(x: int) -> int:
            return 2 * x

    made = sundog.remote(Plain)
    assert made.limit == 5
    assert made.twice(4) == 8
    assert made.__ray_metadata__.modified_class is Plain
    assert not hasattr(made, "missing")
    assert copy.copy(made).limit == 5


def test_the_pickler_is_there_under_rays_name() -> None:
    assert sundog.cloudpickle.loads(sundog.cloudpickle.dumps(lambda: 7))() == 7  # type: ignore[attr-defined]


def test_method_may_stand_without_options_and_without_brackets() -> None:
    def work(self: object) -> int:
        return 1

    assert sundog.method()(work) is work
    assert sundog.method(work) is work
    with pytest.raises(ValueError, match="@method"):
        sundog.method(work, num_returns=2)  # type: ignore[call-overload]
