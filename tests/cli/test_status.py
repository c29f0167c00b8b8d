"""`sundog status`: one page that says what there is, what runs, what waits and why."""

import json
from collections.abc import Callable

import pytest
from click.testing import Result

from sundog.cli import exits
from sundog.observe.words import in_units, in_words
from tests.cli.conftest import FakeInfo, FakeSessions

Sundog = Callable[..., Result]

ANSWER = {
    "node": "ab12",
    "uptime_s": 754.2,
    "resources": {
        "total": {"CPU": 4.0, "memory": 2.0**31, "disk": 2.0, "node:127.0.0.1": 1.0},
        "available": {"CPU": 1.5, "memory": 2.0**30, "node:127.0.0.1": 1.0},
    },
    "workers": {"idle": 2, "leased": 1},
    "actors": {"ALIVE": 1, "DEAD": 5},
    "drivers": [{"pid": 7}, {"pid": 8}],
    "pending": [
        {"shape": {"GPU": 1.0}, "count": 5, "waited_s": 3.25, "why": "infeasible: no node has [GPU]"}
    ],
    "store": {"used_bytes": 3 * 2**20, "objects": 7},
}


def page(sundog: Sundog, sessions: FakeSessions, *arguments: str, **changes: object) -> list[str]:
    sessions.live = sessions.live or [FakeInfo()]
    sessions.answer = {**ANSWER, **changes}
    result = sundog("status", *arguments)
    assert result.exit_code == 0, result.output
    return [" ".join(line.split()) for line in result.output.splitlines()]


def test_the_page_counts_what_runs(sundog: Sundog, sessions: FakeSessions) -> None:
    counts = "2 drivers, 3 workers (2 idle, 1 leased), 1 actor (1 ALIVE, 5 DEAD)"
    assert counts in page(sundog, sessions)
    assert "0 drivers, 0 workers, 0 actors" in page(sundog, sessions, workers={}, actors={}, drivers=[])


def test_the_page_shows_what_is_used_of_each_resource(sundog: Sundog, sessions: FakeSessions) -> None:
    lines = page(sundog, sessions)
    assert "CPU 2.5 4" in lines
    assert "memory 1.0 GiB 2.0 GiB" in lines
    assert "disk 2 2" in lines
    assert not any(line.startswith("node:") for line in lines)


def test_the_page_lists_the_nodes_of_a_session_that_has_several(
    sundog: Sundog, sessions: FakeSessions
) -> None:
    head = {
        "node_id": "aa" * 16,
        "is_head_node": True,
        "state": "ALIVE",
        "why": "",
        "pid": 11,
        "total": {"memory": 2.0**31},
        "available": {"memory": 2.0**31},
        "labels": {"ray.io/node-id": "aa" * 16},
    }
    other = head | {
        "node_id": "bb" * 16,
        "is_head_node": False,
        "pid": 12,
        "total": {"CPU": 4.0, "disk": 2.0, "node:127.0.0.1": 1.0},
        "available": {"CPU": 1.0, "disk": 2.0},
        "labels": {"ray.io/node-id": "bb" * 16, "zone": "east"},
    }
    gone = other | {"node_id": "cc" * 16, "state": "DEAD", "why": "its process ended", "pid": 0, "total": {}}
    lines = page(sundog, sessions, nodes=[head, other, gone])
    assert "aaaaaaaa (head) ALIVE 11 0 - -" in lines
    assert "bbbbbbbb ALIVE 12 3 of 4 disk 0 of 2 zone=east" in lines
    assert "cccccccc DEAD: its process ended - - - zone=east" in lines
    assert "Nodes" not in page(sundog, sessions, nodes=[head])


def test_the_page_says_what_waits_since_when_and_why(sundog: Sundog, sessions: FakeSessions) -> None:
    assert "{'GPU': 1.0}: 5 3.2 s infeasible: no node has [GPU]" in page(sundog, sessions)


def test_the_page_says_when_nothing_waits(sundog: Sundog, sessions: FakeSessions) -> None:
    assert "Nothing waits for resources." in page(sundog, sessions, pending=[])


def test_the_page_shows_the_store(sundog: Sundog, sessions: FakeSessions) -> None:
    assert "Object store: used 3.0 MiB, objects 7" in page(sundog, sessions)


def test_the_page_says_which_session_it_is_about(sundog: Sundog, sessions: FakeSessions) -> None:
    assert page(sundog, sessions)[0] == "Session session-1 up 12 min 34 s, node ab12, pid 4242"


def test_the_newest_session_is_shown_and_the_others_are_named(sundog: Sundog, sessions: FakeSessions) -> None:
    sessions.live = [FakeInfo("new"), FakeInfo("old")]
    lines = page(sundog, sessions)
    assert lines[0].startswith("Session new")
    assert lines[-1] == "Also running: old (sundog status --session old)"


def test_a_session_is_found_by_name_or_by_address(sundog: Sundog, sessions: FakeSessions) -> None:
    sessions.live = [FakeInfo("new", address="x"), FakeInfo("old", address="y")]
    assert page(sundog, sessions, "--session", "old")[0].startswith("Session old")
    assert page(sundog, sessions, "--address", "y")[0].startswith("Session old")
    assert page(sundog, sessions, "--address", "auto")[0].startswith("Session new")


def test_the_figures_come_as_json_too(sundog: Sundog, sessions: FakeSessions) -> None:
    sessions.live = [FakeInfo()]
    sessions.answer = ANSWER
    assert json.loads(sundog("status", "--json").output) == {"session": "session-1", **ANSWER}


def test_no_session_has_a_code_of_its_own_and_the_command_that_starts_one(
    sundog: Sundog, sessions: FakeSessions
) -> None:
    result = sundog("status", "--temp-dir", "/somewhere")
    assert result.exit_code == exits.NO_SESSION
    assert "no session is running below /somewhere" in result.stderr
    assert "sundog start --head" in result.stderr


def test_a_name_that_is_not_running_is_an_error_that_lists_those_that_are(
    sundog: Sundog, sessions: FakeSessions
) -> None:
    sessions.live = [FakeInfo("b"), FakeInfo("a")]
    result = sundog("status", "--session", "c")
    assert result.exit_code == exits.FAILED
    assert "called 'c'; running: b, a" in result.stderr


@pytest.mark.parametrize(
    ("size", "shown"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2**30, "1.0 GiB"), (3 * 2**50, "3072.0 TiB")],
)
def test_sizes_are_shown_in_the_unit_that_fits(size: float, shown: str) -> None:
    assert in_units(size) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.25, "0.2 s"), (59.9, "59 s"), (60, "1 min 0 s"), (3725, "1 h 2 min"), (90000, "1 d 1 h")],
)
def test_times_are_shown_in_their_two_largest_units(seconds: float, shown: str) -> None:
    assert in_words(seconds) == shown


def unfinished(name: str, state: str) -> dict[str, object]:
    return {
        "task": "00" * 16,
        "owner": "00" * 8,
        "attempt": 0,
        "name": name,
        "function": name,
        "kind": "task",
        "actor": "",
        "resources": {},
        "pg": "",
        "submit_s": 1.0,
        "state": state,
        "worker": "",
        "pid": 0,
    }


def test_the_page_says_which_functions_run_and_which_are_not_begun(
    sundog: Sundog, sessions: FakeSessions
) -> None:
    runs = {"running": True, "task": "11" * 16, "start_s": 1.0, "worker": "22" * 8, "pid": 77}
    sessions.tasks = [
        runs,
        {**unfinished("resize", "SUBMITTED_TO_WORKER"), "task": "11" * 16, "worker": "22" * 8},
        unfinished("load", "PENDING_ARGS_AVAIL"),
    ]
    lines = page(sundog, sessions)
    assert any(line.startswith("resize pid 77 1 ") for line in lines)
    assert any(line.startswith("load its arguments 1 ") for line in lines)


def test_the_page_lists_the_dead_actors_that_errors_point_to(sundog: Sundog, sessions: FakeSessions) -> None:
    dead = {
        "class_name": "Counter",
        "actor_id": "ab" * 16,
        "name": "",
        "ago_s": 12.0,
        "why": "it crashed.\nat x",
    }
    lines = page(sundog, sessions, dead_actors=[dead])
    assert f"Counter {'ab' * 16} 12 s it crashed. … at x" in lines


def test_what_is_piped_is_one_row_a_line(sundog: Sundog, sessions: FakeSessions) -> None:
    demand = {"shape": {"CPU": 1.0}, "count": 1, "waited_s": 1.0, "why": "w" * 500}
    assert f"{{'CPU': 1.0}}: 1 1.0 s {'w' * 500}" in page(sundog, sessions, pending=[demand])
    assert any("x" * 300 in line for line in page(sundog, sessions, node="x" * 300))
