"""The benchmark of a million tasks: what counts as late or wrong."""

from __future__ import annotations

import json

from benchmarks import million


def asked(output: object = None, wall_s: float = 1.0) -> million.Asked:
    return million.Asked("sundog summary tasks", wall_s, 0.1, 2.0, json.dumps(output))


def summary(finished: int, failed: int) -> list[dict[str, object]]:
    return [{"summary": {"nop": {"state_counts": {"FINISHED": finished, "FAILED": failed}}}}]


def answers(
    finished: int = 900, failed: int = 100, listed: int = 100, wall_s: float = 1.0
) -> list[million.Asked]:
    return [asked(wall_s=wall_s), asked(summary(finished, failed)), asked([{}] * listed)]


def test_exact_counts_in_time_are_right() -> None:
    assert million.check(answers(), 1000) == []


def test_a_count_that_is_off_by_one_a_row_too_few_and_a_late_answer_are_told() -> None:
    wrong = million.check(answers(finished=899, listed=99, wall_s=3.0), 1000)
    assert len(wrong) == 3
    assert "took 3.00 s" in wrong[0] and "(899, 100)" in wrong[1] and "99 failed tasks" in wrong[2]
    assert "LATER than 2 s" in asked(wall_s=3.0).text()
