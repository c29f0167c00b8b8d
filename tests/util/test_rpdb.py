"""`sundog.util.pdb`: a stop by a call, in a worker and in a driver."""

from __future__ import annotations

import pdb  # noqa: T100
import sys
from types import FrameType, TracebackType

import pytest

from sundog.util import rpdb


class FakeBreakpoints:
    """The breakpoints of a worker."""

    def __init__(self) -> None:
        self.frames: list[FrameType] = []
        self.errors: list[BaseException] = []

    def stop(self, frame: FrameType) -> None:
        self.frames.append(frame)

    def post_mortem(self, error: BaseException) -> None:
        self.errors.append(error)

    def hook(self, *_: object) -> None:
        """What `breakpoint()` calls."""


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> FakeBreakpoints:
    made = FakeBreakpoints()
    monkeypatch.setattr(sys, "breakpointhook", made.hook)
    return made


def test_a_task_stops_where_the_call_stands(worker: FakeBreakpoints) -> None:
    rpdb.set_trace("an id of Ray")
    [frame] = worker.frames
    assert frame.f_code.co_name == "test_a_task_stops_where_the_call_stands"


def test_a_driver_gets_pdb_in_its_own_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    frames: list[FrameType] = []
    monkeypatch.setattr(sys, "breakpointhook", sys.__breakpointhook__)
    monkeypatch.setattr(pdb.Pdb, "set_trace", lambda _self, frame: frames.append(frame))
    rpdb.set_trace()
    assert frames[0].f_code.co_name == "test_a_driver_gets_pdb_in_its_own_terminal"


def test_the_exception_that_is_handled_is_looked_at(
    worker: FakeBreakpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[TracebackType | None] = []
    monkeypatch.setattr(pdb, "post_mortem", seen.append)
    try:
        raise KeyError("k")
    except KeyError as error:
        rpdb.post_mortem()
        assert worker.errors == [error]
        monkeypatch.setattr(sys, "breakpointhook", sys.__breakpointhook__)
        rpdb.post_mortem()
        assert seen == [error.__traceback__]


def test_without_an_exception_there_is_nothing_to_look_at() -> None:
    with pytest.raises(ValueError, match=r"works only in an except clause"):
        rpdb.post_mortem()
