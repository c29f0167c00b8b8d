"""What other threads wait for ends before Ray is shut down under them."""

from __future__ import annotations

import threading
from types import ModuleType
from typing import Any

import pytest

from sundog.exceptions import RaySystemError
from sundog.ray_engine import waiting


class Nil:
    """The actor of a task that is none's, as Ray has it: of a job."""

    def binary(self) -> bytes:
        return b"\xff" * 12 + b"\1\0\0\0"


class Ref:
    """Stands for a ref of a task."""

    def task_id(self) -> Ref:
        return self

    def actor_id(self) -> Nil:
        return Nil()


class FakeRay(ModuleType):
    """Stands for Ray: a get ends when its task is cancelled."""

    def __init__(self) -> None:
        super().__init__("ray")
        self.entered, self.cancelled = threading.Event(), threading.Event()

    def get(self, refs: Any, timeout: float | None) -> str:
        self.entered.set()
        if not self.cancelled.wait(120):
            return "never"
        raise RuntimeError("cancelled")

    def cancel(self, ref: Ref, *, force: bool) -> None:
        assert force
        self.cancelled.set()


def test_a_get_of_another_thread_is_told_that_the_session_was_shut_down() -> None:
    ray, waits, said = FakeRay(), waiting.Waits(), []

    def get() -> None:
        try:
            waits.run(ray.get, [Ref()], timeout=None)
        except RaySystemError as error:
            said.append(str(error))

    thread = threading.Thread(target=get)
    thread.start()
    assert ray.entered.wait(120)
    assert waits.end(ray)
    thread.join()
    assert said == [waiting.SHUT_DOWN]


def test_a_get_that_comes_after_the_end_does_not_reach_ray() -> None:
    waits = waiting.Waits()
    assert waits.end(FakeRay())
    with pytest.raises(RaySystemError, match="shut down"):
        waits.run(lambda refs: refs, [])


def test_a_wait_that_makes_no_sense_is_refused_in_the_words_of_the_local_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting, "ObjectRef", Ref)
    one, two = Ref(), Ref()
    waiting.check_wait([one, two], 2)
    with pytest.raises(TypeError, match="int"):
        waiting.check_wait([one, 3], 1)
    with pytest.raises(ValueError, match="duplicates"):
        waiting.check_wait([one, one], 1)
    for count in (0, 2):
        with pytest.raises(ValueError, match="num_returns"):
            waiting.check_wait([one], count)


def test_a_get_of_what_is_no_ref_is_told_in_the_words_of_the_local_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting, "ObjectRef", Ref)
    waiting.check_get(Ref())
    waiting.check_get([Ref()])
    with pytest.raises(TypeError, match="element 1 of the list is int"):
        waiting.check_get([Ref(), 3])
    with pytest.raises(ValueError, match="not dict"):
        waiting.check_get({})


def test_a_get_that_gave_up_names_what_is_not_ready() -> None:
    class Named(Ref):
        def hex(self) -> str:
            return "ab12"

    ready, late = Named(), Named()
    ray = FakeRay()
    ray.wait = lambda refs, **_: ([ready], [late])  # type: ignore[attr-defined]
    found = waiting.late(ray, [ready, late], 0.5, TimeoutError("not ready"))
    assert isinstance(found, TimeoutError) and "1 of 2 objects" in str(found) and "ab12" in str(found)
    assert vars(found) == {"timeout_s": 0.5, "pending": ["ab12"]}
    ray.wait = lambda refs, **_: 1 / 0  # type: ignore[attr-defined]
    error = TimeoutError("not ready")
    assert waiting.late(ray, ready, 0.5, error) is error


def test_the_answer_and_the_errors_of_a_get_are_its_own() -> None:
    waits = waiting.Waits()
    assert waits.run(lambda refs, timeout: (refs, timeout), 1, timeout=2) == (1, 2)
    with pytest.raises(ZeroDivisionError):
        waits.run(lambda refs: refs / 0, 1)
