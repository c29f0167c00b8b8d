"""The thread for what must not run under the owner's lock."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from sundog.owner.deliveries import Deliveries


@pytest.fixture
def deliveries() -> Any:
    made = Deliveries()
    yield made
    made.stop()


def test_calls_are_made_in_order_on_one_other_thread(deliveries: Deliveries) -> None:
    seen: list[Any] = []
    done = threading.Event()
    for number in range(3):
        deliveries.bring(lambda number: seen.append((number, threading.current_thread().name)), number)
    deliveries.bring(done.set)
    assert done.wait(120)
    assert seen == [(number, "sundog-futures") for number in range(3)]


def test_one_that_raises_is_shown_and_the_next_is_made(
    deliveries: Deliveries, capfd: pytest.CaptureFixture[str]
) -> None:
    done = threading.Event()
    deliveries.bring(lambda: 1 / 0)  # type: ignore[arg-type]
    deliveries.bring(done.set)
    assert done.wait(120)
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_the_end_waits_for_what_was_brought() -> None:
    deliveries = Deliveries()
    gate = threading.Event()
    seen: list[int] = []
    deliveries.bring(gate.wait, 10)  # type: ignore[arg-type]
    deliveries.bring(seen.append, 1)
    threading.Timer(0.01, gate.set).start()
    deliveries.stop()
    assert seen == [1]


def test_what_no_thread_could_bring_comes_with_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    deliveries = Deliveries()
    seen: list[int] = []

    def refuse(_self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as short:
        short.setattr(threading.Thread, "start", refuse)
        assert not deliveries.can_bring()
        deliveries.bring(seen.append, 1)
        deliveries.stop()
    assert seen == [1]


def test_what_no_thread_could_bring_comes_when_a_thread_can_be_started_again(
    deliveries: Deliveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    done = threading.Event()
    with monkeypatch.context() as short:
        short.setattr(threading.Thread, "start", refuse)
        deliveries.bring(done.set)
        deliveries.retry()
    assert not done.is_set()
    deliveries.retry()
    assert done.wait(120)
