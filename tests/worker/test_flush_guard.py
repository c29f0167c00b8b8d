"""The thread that sends replies which wait behind a long task: whatever came before, it comes round."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from sundog.worker import flush_guard
from sundog.worker.flush_guard import FlushGuard
from tests.integration.gates import await_true

_TIMEOUT_S = 120


class _Flushes:
    def __init__(self) -> None:
        self.count = 0
        self._condition = threading.Condition()

    def __call__(self) -> None:
        with self._condition:
            self.count += 1
            self._condition.notify_all()

    def await_more_than(self, count: int) -> None:
        with self._condition:
            assert self._condition.wait_for(lambda: self.count > count, _TIMEOUT_S)


def await_calm(guard: FlushGuard) -> None:
    """Until the guard's thread has looked at nothing a few times, and sleeps until it is armed."""

    def sleeps() -> bool:
        with guard._condition:
            return guard._looks_at == float("inf")

    await_true(sleeps, "the guard's sleep")


@pytest.fixture
def flushes() -> _Flushes:
    return _Flushes()


@pytest.fixture
def guard(flushes: _Flushes, monkeypatch: pytest.MonkeyPatch) -> Iterator[FlushGuard]:
    """A guard; its thread, which has no end of its own, is ended with the test."""
    guard = FlushGuard(flushes)
    yield guard
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    monkeypatch.setattr(flush_guard, "_perf", None)  # at its next look
    with guard._condition:
        guard._condition.notify()
    assert guard._thread is not None
    guard._thread.join(_TIMEOUT_S)


def test_a_batch_that_lasts_is_flushed_again_and_again(guard: FlushGuard, flushes: _Flushes) -> None:
    guard.begin_batch()
    flushes.await_more_than(2)


def test_a_batch_whose_replies_were_just_sent_is_due_later(
    guard: FlushGuard, flushes: _Flushes, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.perf_counter()
    monkeypatch.setattr(flush_guard, "_perf", lambda: now)
    guard.begin_batch()
    due_at = guard._due_at
    now += flush_guard.BATCH_S / 2
    guard.renew()
    assert guard._due_at > due_at and flushes.count == 0
    guard.end_batch()


def test_a_long_batch_after_many_short_ones_is_flushed(guard: FlushGuard, flushes: _Flushes) -> None:
    end = time.monotonic() + 0.3  # until it looks as seldom as it ever does
    while time.monotonic() < end:
        guard.begin_batch()
        time.sleep(0.001)
        guard.end_batch()
    before = flushes.count
    guard.begin_batch()
    flushes.await_more_than(before)


def test_an_item_is_flushed_once_although_the_guard_was_calm(guard: FlushGuard, flushes: _Flushes) -> None:
    guard.begin_batch()
    guard.end_batch()
    await_calm(guard)
    before = flushes.count
    guard.watch_item()
    flushes.await_more_than(before)
    await_calm(guard)
    assert flushes.count == before + 1


def test_a_batch_that_has_ended_is_left_alone(
    guard: FlushGuard, flushes: _Flushes, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.perf_counter()
    # Until it has ended no time passes, whoever has the processors meanwhile.
    monkeypatch.setattr(flush_guard, "_perf", lambda: now)
    guard.begin_batch()
    guard.end_batch()
    monkeypatch.setattr(flush_guard, "_perf", time.perf_counter)
    await_calm(guard)
    assert flushes.count == 0
