"""`sundog why`: a page, its JSON, and words that mean nothing."""

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
        flags = events.FAILED if number else 0
        ring.write(events.TASK, bytes(15) + bytes([number]), ring.name("f"), 1.0, 2.0, 3.0, flags)
        ring.note(
            "error", task=(bytes(15) + bytes([number])).hex(), attempt=0, type="T", message="no \x1b[31mway"
        )
    ring.close()
    return folder


def test_the_worst_trouble_is_explained(sundog: Sundog, ended: Path) -> None:
    lines = sundog("why").output.splitlines()
    assert lines[0].startswith("task f()") and "failed after 1 s" in lines[0]
    assert lines[1].startswith("  because T: no") and "\x1b" not in lines[1]
    assert lines[-1].startswith("  next: sundog ")
    [row] = json.loads(sundog("why", "f", "--json").output)
    assert row["verdict"] == "failed after 1 s" and row["next"]


def test_a_word_that_means_nothing_is_answered_in_one_sentence(sundog: Sundog, ended: Path) -> None:
    for word in ("nothing", "ab" * 16, "ab" * 8, "12345678"):
        result = sundog("why", word)
        assert (result.exit_code, len(result.output.splitlines())) == (1, 1), result.output
    assert sundog("why", "--session", "nothing").exit_code == 3
