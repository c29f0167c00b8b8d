"""Plain rows behave as dataclasses do, in what the code asks of them."""

from __future__ import annotations

import pickle
from typing import ClassVar

import pytest

from sundog.options import parse_actor_options
from sundog.plain import as_dict, field, fields, plain, replaced


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
