"""A few random kills with every test run; `python -m tests.chaos.vanish` makes hundreds and prints the distribution."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos import vanish

KILLS = 6
SEED = 9  # a driver, a node, an actor, idle and young workers


@pytest.mark.timeout(400)  # whole sessions, each played to its end however loaded the machine is
def test_nothing_is_left_two_seconds_after_a_kill_whoever_is_killed_and_when(leak_check: Path) -> None:
    lines: list[str] = []
    made, broken = vanish.run(KILLS, SEED, lines.append)
    assert not broken, "\n".join([f"seed {SEED}", *lines, *broken])
    assert len(made) == KILLS
