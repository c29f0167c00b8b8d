"""`sundog stop`: the sessions of `sundog start`, all, or the one that is named."""

from collections.abc import Callable

from click.testing import Result

from sundog.cli import exits
from sundog.exceptions import RaySystemError
from tests.cli.conftest import FakeInfo, FakeSessions

Sundog = Callable[..., Result]


def test_every_session_is_stopped_and_what_was_stopped_is_said(
    sundog: Sundog, sessions: FakeSessions
) -> None:
    sessions.live = [FakeInfo("b", node_pid=2), FakeInfo("a", node_pid=1)]
    result = sundog("stop")
    assert result.exit_code == 0
    assert sessions.stopped == [("b", False, 10.0), ("a", False, 10.0)]
    assert result.output == "Node 2 of b\nNode 1 of a\n2 sessions ended.\n"


def test_sessions_that_programs_started_are_left_and_listed(sundog: Sundog, sessions: FakeSessions) -> None:
    sessions.live = [
        FakeInfo("c", node_pid=3, persistent=False),
        FakeInfo("b"),
        FakeInfo("a", persistent=False),
    ]
    result = sundog("stop")
    assert [name for name, _, _ in sessions.stopped] == ["b"]
    assert "1 session ended." in result.output
    assert "Left running: c (node pid 3)" in result.output and "sundog stop --session a" in result.output
    sessions.live = sessions.live[:1]
    result = sundog("stop")
    assert "Left running: c" in result.output and "No session" not in result.output


def test_all_sessions_are_stopped_only_when_that_is_said(sundog: Sundog, sessions: FakeSessions) -> None:
    sessions.live = [FakeInfo("b"), FakeInfo("a", persistent=False)]
    assert "2 sessions ended." in sundog("stop", "--all").output
    assert "Left" not in sundog("stop", "--session", "a").output
    assert [name for name, _, _ in sessions.stopped] == ["b", "a", "a"]


def test_a_named_session_is_stopped_alone(sundog: Sundog, sessions: FakeSessions) -> None:
    sessions.live = [FakeInfo("b"), FakeInfo("a")]
    assert "1 session ended." in sundog("stop", "--session", "a").output
    assert [name for name, _, _ in sessions.stopped] == ["a"]


def test_force_and_grace_reach_the_session(sundog: Sundog, sessions: FakeSessions) -> None:
    sessions.live = [FakeInfo("a")]
    assert sundog("stop", "--force", "--grace-period", "0.5", "--temp-dir", "/somewhere").exit_code == 0
    assert sessions.stopped == [("a", True, 0.5)]
    assert sessions.looked_in == ["/somewhere"]


def test_a_session_that_does_not_end_is_told_after_the_others_ended(
    sundog: Sundog, sessions: FakeSessions
) -> None:
    sessions.live = [FakeInfo("stuck"), FakeInfo("a")]
    sessions.failure = RaySystemError("Session stuck does not end.")
    result = sundog("stop")
    assert result.exit_code == exits.FAILED
    assert "1 session ended." in result.stdout and "Session stuck does not end." in result.stderr


def test_nothing_to_stop_is_success(sundog: Sundog, sessions: FakeSessions) -> None:
    result = sundog("stop")
    assert (result.exit_code, result.output) == (0, "No session is running.\n")


def test_a_name_that_is_not_running_is_an_error_that_lists_those_that_are(
    sundog: Sundog, sessions: FakeSessions
) -> None:
    sessions.live = [FakeInfo("b"), FakeInfo("a")]
    result = sundog("stop", "--session", "c")
    assert result.exit_code == exits.FAILED
    assert "called 'c'; running: b, a" in result.stderr
    assert sessions.stopped == []


def test_a_negative_grace_period_is_refused(sundog: Sundog, sessions: FakeSessions) -> None:
    assert sundog("stop", "--grace-period", "-1").exit_code == exits.USAGE
