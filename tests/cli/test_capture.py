"""`sundog capture`: what is asked of the node, and what its answer means."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import Result

from sundog.cli import capture
from sundog.wire.requests import Capture
from tests.cli.fakes import FakeSession

Run = Callable[..., Result]


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    fake = FakeSession([[]])
    monkeypatch.setattr(capture, "opened_live", lambda _session: fake)
    return fake


def test_functions_are_named_to_the_node_which_says_what_is_captured(
    session: FakeSession, sundog: Run
) -> None:
    session.answers = [["Model.step", "resize"]]
    done = sundog("capture", "resize", "Model.step")
    assert session.asked == [Capture(["resize", "Model.step"], True)]
    assert done.output == "Every run leaves a capsule: Model.step, resize.\n"


def test_capture_ends_for_one_function_or_for_all(session: FakeSession, sundog: Run) -> None:
    assert sundog("capture", "--off", "resize").output == "Only failures leave a capsule.\n"
    assert sundog("capture", "--off").exit_code == 0
    assert session.asked == [Capture(["resize"], False), Capture([], False)]


def test_without_a_function_the_command_says_what_is_missing(session: FakeSession, sundog: Run) -> None:
    done = sundog("capture")
    assert done.exit_code == 2 and "give the name of a function, or Class.method." in done.output
    assert session.asked == []
