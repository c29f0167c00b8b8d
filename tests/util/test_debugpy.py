"""`sundog.util.ray_debugpy`: a stop for an editor, in a worker and in a driver."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from sundog.debugging import vscode
from sundog.util import debugpy


class FakeBreakpoints:
    """The breakpoints of a worker."""

    def __init__(self) -> None:
        self.stops: list[tuple[FrameType, str]] = []

    def stop_in_editor(self, frame: FrameType, why: str) -> None:
        self.stops.append((frame, why))

    def hook(self, *_: object) -> None:
        """What `breakpoint()` calls."""


def test_a_task_waits_for_an_editor_where_the_call_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    made = FakeBreakpoints()
    monkeypatch.setattr(sys, "breakpointhook", made.hook)
    debugpy.set_trace(b"an id of Ray")
    [(frame, why)] = made.stops
    assert (
        frame.f_code.co_name == "test_a_task_waits_for_an_editor_where_the_call_stands"
        and why == "breakpoint()"
    )


def test_a_driver_says_on_which_port_it_listens(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stops: list[FrameType] = []
    monkeypatch.setattr(sys, "breakpointhook", sys.__breakpointhook__)
    monkeypatch.setattr(vscode, "listen", lambda: 5678)
    monkeypatch.setattr(vscode, "stop_at", stops.append)
    debugpy.set_trace()
    assert "listening on 127.0.0.1:5678" in capsys.readouterr().err
    assert stops[0].f_code.co_name == "test_a_driver_says_on_which_port_it_listens"
