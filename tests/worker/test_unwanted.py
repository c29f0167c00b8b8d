"""What a worker knows of results that nobody holds."""

from __future__ import annotations

from typing import Any

from sundog.wire.peers import Unwanted
from sundog.worker.unwanted import ASK_FROM_BYTES, UnwantedHere
from tests.owner.fakes import ME, make_owner

TASK = b"t" * 16
LARGE: Any = [memoryview(bytes(ASK_FROM_BYTES))]
SMALL: Any = [memoryview(bytes(100))]


def test_the_owner_is_asked_once_when_the_first_large_result_comes() -> None:
    owner = make_owner()
    here = UnwantedHere(owner)
    owner.reactor.dormant = True
    assert not here.is_unwanted(TASK, ME, 1, SMALL)
    assert owner.peers.sent == []
    assert not here.is_unwanted(TASK, ME, 2, LARGE)
    assert not here.is_unwanted(TASK, ME, 3, LARGE)
    assert owner.peers.sent == [(ME, "ask_unwanted", TASK)]
    assert not owner.reactor.dormant  # the answer will be read


def test_a_result_that_the_owner_named_is_unwanted_and_others_are_not() -> None:
    here = UnwantedHere(make_owner())
    here.is_unwanted(TASK, ME, 1, LARGE)
    here.told(ME, Unwanted(TASK, [3]))
    here.told(ME, Unwanted(TASK, [5, 6]))
    assert [index for index in range(1, 8) if here.is_unwanted(TASK, ME, index, SMALL)] == [3, 5, 6]


def test_an_answer_that_comes_after_the_end_of_the_task_is_dropped() -> None:
    here = UnwantedHere(make_owner())
    here.is_unwanted(TASK, ME, 1, LARGE)
    here.forget(TASK)
    here.told(ME, Unwanted(TASK, [1]))
    assert not here.is_unwanted(TASK, ME, 1, SMALL)
