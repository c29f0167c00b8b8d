"""The ways in which a worker of a pool calls the user's function."""

from __future__ import annotations

import cloudpickle
import pytest

from sundog.util.multiprocessing.calls import WAYS, Calls, Failure


def ratio(a: float, b: float = 2.0) -> float:
    return a / b


def made(way: str) -> Calls:
    """The calls as a worker gets them."""
    load, facts = Calls(cloudpickle.dumps(ratio), way, None).__reduce__()
    return load(*facts)


def test_a_function_is_called_with_its_arguments() -> None:
    assert made("call")(6.0, b=3.0) == 2.0
    assert made("apply")(((6.0,), {"b": 3.0})) == 2.0


def test_a_chunk_gives_one_result_for_each_item() -> None:
    assert made("map")([2.0, 4.0]) == [1.0, 2.0]
    assert made("star")([(6.0, 3.0), (8.0, 2.0)]) == [2.0, 4.0]


def test_one_bad_item_does_not_lose_its_chunk() -> None:
    found = made("star")([(6.0, 3.0), (1.0, 0.0)])
    assert isinstance(found, list) and found[0] == 2.0
    assert isinstance(found[1], Failure) and isinstance(found[1].error, ZeroDivisionError)


def test_an_exception_is_caused_by_its_remote_traceback() -> None:
    failure = made("call")(1.0, 0.0)
    assert isinstance(failure, Failure)
    assert "in ratio" in str(failure.exception().__cause__)
    own = ValueError("x")
    own.__cause__ = KeyError("the user's own")
    assert isinstance(Failure(own, "text").exception().__cause__, KeyError)


def test_a_function_can_travel_with_the_call() -> None:
    call = Calls(b"", "any", None)
    assert call(ratio, "map", ([2.0],), {}) == [1.0]
    with pytest.raises(KeyError):
        call(ratio, "no such way", (), {})


def test_a_greeting_calls_nothing() -> None:
    assert WAYS["greet"](ratio, (), {}) is None
