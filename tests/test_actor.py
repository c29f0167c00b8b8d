"""Actor classes and handles without a session: what they refuse and what they tell."""

from __future__ import annotations

import abc
import pickle
from collections.abc import Iterator

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
    with pytest.raises(TypeError, match="does not run in an actor"):
        exit_actor()


def test_special_methods_of_the_class_are_methods_of_the_handle_but_for_those_it_has_itself() -> None:
    class Box:
        def __len__(self) -> int:
            return 4

        def __iter__(self) -> Iterator[int]:
            yield 1

        def __repr__(self) -> str:
            return "box"

        def __eq__(self, other: object) -> bool:
            return True

        def __deepcopy__(self, memo: object) -> Box:
            return self

    members = _members(Box)
    assert sorted(members.methods) == ["__iter__", "__len__"]
    assert members.generators == {"__iter__"}
    box: ActorHandle[Box] = ActorHandle(
        bytes(16), HandleData.of(members, parse_actor_options({})), ObjectRef(bytes(20), None)
    )
    assert repr(box.__len__) == "ActorMethod(Box.__len__)"
    assert repr(box).startswith("Actor(")
    assert not hasattr(box, "__array__")


def test_an_abstract_class_is_refused_with_what_it_lacks() -> None:
    class Base(abc.ABC):
        @abc.abstractmethod
        def area(self) -> float: ...

    with pytest.raises(TypeError, match="Base is abstract: area"):
        sundog.remote(Base)

    class Square(Base):
        def area(self) -> float:
            return 1.0

    assert sundog.remote(Square) is not None
