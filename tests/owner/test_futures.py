"""Futures of objects: who waits does so through the owner, and is told."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from sundog.owner.futures import ObjectFuture
from tests.owner.fakes import make_owner


class Blocks:
    """What waits: it does what a test says."""

    def __init__(self, blocks: Any) -> None:
        self.block_until = blocks


def make_future(owner: Any, blocks: Any) -> ObjectFuture:
    return ObjectFuture(owner, Blocks(blocks))


def test_a_future_that_is_done_is_read_without_waiting() -> None:
    owner = make_owner()
    future = make_future(owner, lambda *_: pytest.fail("waited"))
    future.set_result(7)
    future.announce()
    assert future.result() == 7 and future.exception() is None
    assert owner.reactor.woken == 0, "nobody waits"


def test_who_waits_for_a_future_is_told_when_it_is_done() -> None:
    def complete(done: Any, key: bytes, timeout: float | None) -> None:
        announced: list[bytes] = []
        owner.waiters[key] = [announced.append]
        future.set_exception(KeyError("x"))
        future.announce()
        assert done() and announced == [key] and owner.reactor.woken == 1

    owner = make_owner()
    future = make_future(owner, complete)
    with pytest.raises(KeyError):
        future.result()


def test_a_future_that_does_not_come_in_time_is_a_timeout() -> None:
    asked: list[float | None] = []
    future = make_future(make_owner(), lambda done, key, timeout: asked.append(timeout))
    with pytest.raises(TimeoutError):
        future.result(0.25)
    assert asked == [0.25]


def test_a_future_of_a_session_that_has_ended_tells_the_reason_and_no_timeout() -> None:
    def end(done: Any, key: bytes, timeout: float | None) -> None:
        owner.closed = RuntimeError("it was shut down")
        threading.Timer(0.05, future.set_exception, (owner.closed,)).start()  # as the thread for deliveries

    owner = make_owner()
    future = make_future(owner, end)
    with pytest.raises(RuntimeError, match="it was shut down"):
        future.result(60)
