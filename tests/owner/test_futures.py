"""Futures of objects: who waits does so through the owner, and is told."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from sundog.owner.futures import ObjectFuture


class Owner:
    """As much of an owner as a future needs: `block_until` does what a test says."""

    def __init__(self, blocks: Any) -> None:
        self.lock = threading.RLock()
        self.announced: list[bytes] = []
        self.objects = self
        self.getting = SimpleNamespace(block_until=blocks)
        self.reactor = SimpleNamespace(wake=lambda: None)

    def announce(self, key: bytes) -> None:
        self.announced.append(key)


def test_a_future_that_is_done_is_read_without_waiting() -> None:
    owner: Any = Owner(lambda *_: pytest.fail("waited"))
    future = ObjectFuture(owner)
    future.set_result(7)
    future.announce()
    assert future.result() == 7 and future.exception() is None
    assert owner.announced == [], "nobody waits"


def test_who_waits_for_a_future_is_told_when_it_is_done() -> None:
    def complete(done: Any, key: bytes, timeout: float | None) -> None:
        future.set_exception(KeyError("x"))
        future.announce()
        assert done() and owner.announced == [key]

    owner: Any = Owner(complete)
    future = ObjectFuture(owner)
    with pytest.raises(KeyError):
        future.result()


def test_a_future_that_does_not_come_in_time_is_a_timeout() -> None:
    asked: list[float | None] = []
    owner: Any = Owner(lambda done, key, timeout: asked.append(timeout))
    with pytest.raises(TimeoutError):
        ObjectFuture(owner).result(0.25)
    assert asked == [0.25]
