"""What a worker says about itself."""

from __future__ import annotations

import threading

import pytest

from sundog.ray_engine import answers, process, shim
from tests.ray_engine.test_shim import Recorded


@pytest.fixture(autouse=True)
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Recorded()
    monkeypatch.setattr(process, "me", found)
    monkeypatch.setattr(process, "ready", lambda role="worker": found)


def test_the_stack_of_a_call_names_its_function_and_line() -> None:
    inside, leave = threading.Event(), threading.Event()

    def hang() -> None:
        inside.set()
        leave.wait()

    thread = threading.Thread(target=shim.task(hang, ()))
    thread.start()
    inside.wait()
    told = answers.answer("stacks")
    leave.set()
    thread.join()
    assert told.startswith("hang (thread ") and "leave.wait()" in told


def test_a_worker_without_a_call_and_an_unknown_question_have_an_answer() -> None:
    assert answers.answer("stacks") == "(no call runs here)"
    assert answers.answer("weather") == "there is no question 'weather'"
