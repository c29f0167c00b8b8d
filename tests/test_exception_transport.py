"""The pieces that carry a user's exception: its text, bare instances, packing."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from sundog import exception_transport as transport


class Demanding(Exception):
    """Neither __new__ nor __init__ can be called without arguments."""

    def __new__(cls, first: int, second: int) -> Demanding:
        return super().__new__(cls, first, second)

    def __init__(self, first: int, second: int) -> None:
        super().__init__(first)


class TwoLayouts(ValueError, OSError):
    """ValueError comes first, but OSError decides how it lies in memory."""


class ExtraMember(Exception):
    def __reduce__(self) -> tuple[Any, ...]:
        return (dict, ())


@pytest.mark.parametrize("cls", [Demanding, TwoLayouts, UnicodeDecodeError, StopIteration, KeyError])
def test_a_bare_instance_runs_no_constructor_of_the_user(cls: type[BaseException]) -> None:
    assert type(transport.bare_instance(cls, Exception())) is cls


def test_a_bare_group_has_the_members_of_its_model() -> None:
    model = ExceptionGroup("both", [ValueError(1), KeyError(2)])
    made = transport.bare_instance(ExceptionGroup, model)
    assert (made.message, made.exceptions) == (model.message, model.exceptions)


def test_native_fields_are_copied_and_those_never_set_are_left_alone() -> None:
    target = BlockingIOError()
    transport.copy_native_fields(BlockingIOError(11, "again"), target)
    assert (target.errno, target.strerror) == (11, "again")
    with pytest.raises(AttributeError):
        _ = target.characters_written


def test_a_plain_builtin_is_packed_as_itself() -> None:
    exc = KeyError("k")
    assert transport.pack(exc) == {"plain": exc}
    assert transport.unpack(transport.pack(exc)) is exc


def test_a_note_makes_a_builtin_less_than_plain_and_arrives() -> None:
    exc = KeyError("k")
    exc.add_note("try another key")
    back = transport.unpack(transport.pack(exc))
    assert back.__notes__ == ["try another key"]
    assert type(back) is KeyError


def test_an_exception_that_survives_pickling_is_not_replaced() -> None:
    exc = TwoLayouts("fine")
    assert transport.portable(exc) is exc


def test_an_exception_that_would_come_back_as_something_else_is_replaced() -> None:
    exc = ExtraMember("kept")
    made = transport.portable(exc)
    assert made is not exc
    assert isinstance(made, ExtraMember)
    assert str(made) == "kept"
    assert "came back as dict" in (type(made).__doc__ or "")
    assert isinstance(transport.unpack(transport.pack(exc)), ExtraMember)


def test_a_stand_in_is_not_replaced_again_and_pickles_by_itself() -> None:
    made = transport.portable(Demanding(1, 2))
    assert transport.portable(made) is made
    back = pickle.loads(pickle.dumps(made))
    assert isinstance(back, Demanding)
    assert (str(back), repr(back)) == (str(made), repr(made))


def test_bytes_that_cannot_be_read_at_all_still_give_an_exception() -> None:
    packed = transport.pack(TwoLayouts("text"))
    packed["exact"] = b"garbage"
    packed["classes"] = [b"garbage"]
    made = transport.unpack(packed)
    assert type(made).__name__ == "TwoLayouts"
    assert isinstance(made, Exception)
    assert str(made) == "text"


def test_a_chain_is_formatted_even_if_an_exception_sabotages_it() -> None:
    class Saboteur(Exception):
        def __getattribute__(self, name: str) -> Any:
            if name == "__suppress_context__":
                raise RuntimeError("no context")
            return super().__getattribute__(name)

    text = transport.format_chain(Saboteur("x"), ())
    assert "Saboteur: x\n" in text
    assert "not all of it could be formatted" in text
