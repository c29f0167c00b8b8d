"""Actor classes and handles without a session: what they refuse and what they tell."""

from __future__ import annotations

import pickle

import pytest

import sundog
from sundog.actor import ActorClassInheritanceException, ActorHandle, _members, exit_actor, typed
from sundog.handle_data import HandleData
from sundog.options import parse_actor_options
from sundog.refs import ObjectRef


class Counter:
    """Counts."""

    def add(self, amount: int) -> int:
        """Add it."""
        return amount


Remote = sundog.remote(Counter)


def handle() -> ActorHandle[Counter]:
    made: ActorHandle[Counter] = ActorHandle(
        bytes(16), HandleData.of(_members(Counter), parse_actor_options({})), ObjectRef(bytes(20), None)
    )
    return made


def test_an_actor_class_is_neither_called_nor_inherited_from() -> None:
    with pytest.raises(TypeError, match=r"Counter\.remote"):
        Remote()
    with pytest.raises(ActorClassInheritanceException, match="plain class"):
        type("Sub", Remote.__mro_entries__(()), {})


def test_a_handle_has_the_methods_of_its_class_and_names_them_when_one_is_missing() -> None:
    actor = handle()

    assert actor.add is actor.add
    with pytest.raises(AttributeError, match=r"no method 'subtract'.*add"):
        _ = actor.subtract
    with pytest.raises(TypeError, match=r"add\.remote"):
        actor.add(1)
    assert {"add", "__ray_ready__"} <= set(dir(actor))


def test_two_handles_of_one_actor_are_equal_also_after_a_journey() -> None:
    actor = handle()
    again = pickle.loads(pickle.dumps(actor))

    assert again == actor and hash(again) == hash(actor)
    assert repr(again) == f"Actor(Counter, {bytes(16).hex()})"


def test_a_method_of_a_handle_survives_a_journey_with_its_options() -> None:
    again = pickle.loads(pickle.dumps(handle().add.options(name="sum")))

    assert again.__name__ == "add" and again._options.name == "sum"
    assert again._core.actor_id == bytes(16)


def test_typed_gives_the_handle_itself() -> None:
    actor = handle()

    assert typed(actor) is actor  # type: ignore[comparison-overlap]


def test_exit_actor_outside_of_an_actor_is_refused() -> None:
    with pytest.raises(TypeError, match="not an actor"):
        exit_actor()
