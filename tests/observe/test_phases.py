"""What a task waited for: the moments that are known, in order, and nothing between those that are not."""

from __future__ import annotations

from sundog.observe.phases import waits
from sundog.observe.timeline import TaskRow


def row(start_s: float | None, kind: str = "task") -> TaskRow:
    return TaskRow(b"t" * 16, "f", 10.0, start_s, None, b"w" * 8, 1, b"o" * 8, None, kind)


def shown(found: list[object]) -> list[tuple[str, float]]:
    return [(each.waits_for, round(each.seconds, 3)) for each in found]  # type: ignore[attr-defined]


def test_all_moments_are_known() -> None:
    found = waits(row(20.0), 12.0, 15.0, 16.0)
    assert shown(list(found)) == [
        ("its arguments", 2.0),
        ("a worker", 3.0),
        ("its owner", 1.0),
        ("its turn", 4.0),
    ]


def test_a_moment_that_is_missing_is_the_one_before_it() -> None:
    assert shown(list(waits(row(20.0), None, None, None))) == [("its turn", 10.0)]
    assert shown(list(waits(row(20.0), 12.0, 11.0, 20.0))) == [("its arguments", 2.0), ("its owner", 8.0)]
    assert shown(list(waits(row(20.0, "actor_task"), None, 19.0, None))) == [
        ("its actor", 9.0),
        ("its turn", 1.0),
    ]


def test_a_task_that_has_not_begun_has_no_phases() -> None:
    assert waits(row(None), 12.0, None, None) == []
