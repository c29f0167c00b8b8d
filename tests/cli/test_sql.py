"""`sundog sql`: reads, refuses to write, says what is wrong with a question in one sentence."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from sundog import events
from tests.cli.conftest import session_folder

Sundog = Callable[..., Result]


@pytest.fixture
def ended(leak_check: Path) -> Path:
    folder = session_folder(leak_check)
    ring = events.Ring(str(folder / "rings" / f"{'cd' * 8}.ring"), 64, "worker")
    for number in range(3):
        ring.write(events.TASK, bytes(15) + bytes([number]), ring.name("f"), 1.0, 2.0, 3.0 + number)
    ring.close()
    return folder


def test_a_question_is_answered(sundog: Sundog, ended: Path) -> None:
    asked = "select name, count(*) as n, max(duration_s) as most from tasks group by name"
    assert json.loads(sundog("sql", asked, "--json").output) == [{"name": "f", "n": 3, "most": 3.0}]
    lines = sundog("sql", "select task_id from tasks").output.splitlines()
    assert len(lines) == 4
    assert sundog("sql", "select * from tasks where pid = 0").output == "There are no such rows.\n"
    assert "duration_s" in sundog("sql", "--tables").output


@pytest.mark.parametrize(
    "question",
    [
        "delete from attempts",
        "drop table attempts",
        "attach '/tmp/x.sqlite' as x",
        "pragma query_only = 0",
        "select * from nothing",
        "nonsense",
        "select 1; select 2",
    ],
)
def test_what_is_no_question_is_refused_in_one_sentence(sundog: Sundog, ended: Path, question: str) -> None:
    result = sundog("sql", question)
    assert (result.exit_code, len(result.output.splitlines())) == (1, 1)
    assert "sundog sql --tables" in result.output
    assert json.loads(sundog("sql", "select count(*) as n from tasks", "--json").output) == [{"n": 3}]


def test_a_question_is_needed(sundog: Sundog, ended: Path) -> None:
    assert sundog("sql").exit_code == 2
