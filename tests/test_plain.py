"""Plain rows behave as dataclasses do, in what the code asks of them."""

from __future__ import annotations

import pickle
from typing import ClassVar

import pytest

from sundog.options import parse_actor_options
from sundog.plain import NamedTuple, as_dict, field, fields, plain, replaced


@plain(frozen=True)
class Base:
    name: str
    tags: list[str] = field(default_factory=list)


@plain(frozen=True)
class Place(Base):
    kinds: ClassVar[int] = 3
    x: int = 0


@plain(kw_only=True, slots=False)
class Loose:
    size: int = field(default=4, metadata={"doc": "how big"})


def test_defaults_are_made_for_each_row() -> None:
    first, second = Base("a"), Base("a")
    first.tags.append("t")

    assert (first.tags, second.tags) == (["t"], [])
    assert first != second


def test_fields_are_inherited_and_class_variables_are_none() -> None:
    assert [each.name for each in fields(Place)] == ["name", "tags", "x"]
    assert (Place.kinds, Place("p", x=2).x) == (3, 2)
    assert repr(Place("p", ["t"], 1)) == "Place(name='p', tags=['t'], x=1)"


def test_rows_match_by_position_copy_and_travel() -> None:
    row = Place("p", [], 5)

    match row:
        case Place(name, _, x):
            assert (name, x) == ("p", 5)
    assert replaced(row, x=6) == Place("p", [], 6)
    assert as_dict(row) == {"name": "p", "tags": [], "x": 5}
    assert pickle.loads(pickle.dumps(row)) == row


def test_slots_refuse_other_names_and_missing_values_are_named() -> None:
    with pytest.raises(AttributeError):
        Base("a").other = 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="name"):
        Base()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Loose(4)  # type: ignore[call-arg]


def test_facts_of_a_field_are_kept_and_its_default_is_the_class_s() -> None:
    (size,) = fields(Loose)

    assert (size.type, size.default, size.metadata["doc"]) == ("int", 4, "how big")
    assert (Loose.size, Loose().size, Loose(size=5).size) == (4, 4, 5)


def test_options_travel_though_they_cannot_be_changed() -> None:
    options = parse_actor_options({"num_cpus": 2})

    assert pickle.loads(pickle.dumps(options)) == options
    with pytest.raises(AttributeError, match="merged"):
        options.num_cpus = 3  # type: ignore[misc]


class Span(NamedTuple):
    """A part of a line."""

    cls: str
    new: int = 1
    tags: tuple[str, ...] = ()

    @property
    def end(self) -> int:
        return self.new + 1


class Named(Span):
    """One with a method more."""

    def text(self) -> str:
        return f"{self.cls}:{self.end}"


def test_a_named_tuple_is_a_tuple_with_names_and_defaults() -> None:
    made = Span("a", tags=("x",))

    name, new, tags = made
    assert (name, new, tags) == ("a", 1, ("x",))
    assert tuple(made) == (name, new, tags)
    assert (made.cls, made.new, made.tags, made.end) == ("a", 1, ("x",), 2)
    assert repr(made) == "Span(cls='a', new=1, tags=('x',))"
    assert made._replace(new=4) == Span("a", 4, ("x",)) == Span._make(["a", 4, ("x",)])
    assert made._asdict() == {"cls": "a", "new": 1, "tags": ("x",)}
    assert hash(made) == hash(tuple(made))
    assert Span._fields == ("cls", "new", "tags")
    assert Span._field_defaults == {"new": 1, "tags": ()}


def test_a_named_tuple_refuses_what_its_fields_do_not_allow() -> None:
    made = Span("a")

    with pytest.raises(TypeError, match="positional"):
        Span("a", 1, (), 2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="missing"):
        Span()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected"):
        Span("a", nothing=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected"):
        made._replace(nothing=1)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        made.cls = "b"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        made.other = "b"  # type: ignore[attr-defined]


def test_named_tuples_survive_pickling_and_match() -> None:
    for made in (Span("a", 2), Named("a", 2)):
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            again = pickle.loads(pickle.dumps(made, protocol))
            assert again == made
            assert type(again) is type(made)
    match Span("b", 7):
        case Span(name, number, _):
            assert (name, number) == ("b", 7)
        case _:
            pytest.fail("a named tuple matches by position")
    assert Named("b").text() == "b:2"
