"""Diagnoses on runs made by hand: each pattern is found, priced, and not seen where it is not."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from sundog.observe.doctor import Advice, advise
from sundog.observe.timeline import SpanRow, TaskRow

DRIVER = b"\xdd" * 8
_ids = itertools.count(1)


def task(
    submit: float, start: float, end: float, *, name: str = "f", worker: int = 0, **more: Any
) -> TaskRow:
    fields: dict[str, Any] = {"owner_id": DRIVER, "ok": True, **more}
    identity = next(_ids).to_bytes(16, "little")
    return TaskRow(identity, name, submit, start, end, bytes([worker]) * 8, 100 + worker, **fields)


def get(start: float, end: float, detail: str = "") -> SpanRow:
    return SpanRow("get", start, end, 7, DRIVER, detail)


def only(found: list[Advice], word: str) -> Advice:
    matching = [advice for advice in found if word in advice.title]
    assert len(matching) == 1, [advice.title for advice in found]
    return matching[0]


def titles(found: list[Advice]) -> str:
    return "; ".join(advice.title for advice in found)


def perfect(count: int = 20, cores: int = 4, time: float = 0.5) -> tuple[list[TaskRow], list[SpanRow], float]:
    """All submitted at once, spread evenly, one get for all."""
    rows = []
    for i in range(count):
        start = (i // cores) * time
        rows.append(task(0.0, start, start + time, worker=i % cores))
    wall = count / cores * time
    return rows, [get(0.0, wall)], wall


def test_a_well_made_run_gets_no_advice() -> None:
    rows, spans, wall = perfect()
    assert advise(rows, spans, cores=4, wall_s=wall) == []


def test_a_run_without_tasks_gets_no_advice() -> None:
    assert advise([], [], cores=4, wall_s=3.0) == []
    assert advise([TaskRow(b"t", "f", 0, None, None, b"", 0, DRIVER, None)], [], cores=4, wall_s=3.0) == []


def test_senseless_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="cores"):
        advise([], [], cores=0, wall_s=1.0)


def test_a_get_in_a_loop_is_found_and_priced() -> None:
    rows = [task(i * 0.5, i * 0.5, i * 0.5 + 0.5, worker=i % 5) for i in range(5)]
    spans = [get(i * 0.5, i * 0.5 + 0.5, "ex1.py:12") for i in range(5)]
    advice = only(advise(rows, spans, cores=5, wall_s=2.5), "get in a loop")
    assert advice.cost_s == pytest.approx(2.0) and advice.would_take_s == pytest.approx(0.5)
    assert "5 of 5 gets" in advice.evidence and "ex1.py:12" in advice.evidence
    assert "f.remote" in advice.next_step


def test_gets_with_other_work_in_flight_are_no_get_in_a_loop() -> None:
    rows, _, wall = perfect()
    spans = [get(row.start_s or 0.0, row.end_s or 0.0) for row in rows]
    assert "get in a loop" not in titles(advise(rows, spans, cores=4, wall_s=wall))


def test_on_one_core_a_get_in_a_loop_costs_nothing() -> None:
    rows = [task(i * 0.5, i * 0.5, i * 0.5 + 0.5) for i in range(5)]
    spans = [get(i * 0.5, i * 0.5 + 0.5) for i in range(5)]
    assert advise(rows, spans, cores=1, wall_s=2.5) == []


def test_tasks_smaller_than_their_overhead_are_found_with_the_measured_overhead() -> None:
    rows = []
    for worker in range(2):
        for i in range(500):
            start = i * 0.00024
            rows.append(task(0.0, start, start + 0.00004, name="tiny", worker=worker))
    wall = 500 * 0.00024
    advice = only(advise(rows, [get(0.0, wall)], cores=2, wall_s=wall), "too small")
    assert "200 µs of overhead" in advice.evidence and "measured" in advice.evidence
    # 25 to a call: 500 gaps of 200 µs on each worker become 20.
    assert advice.cost_s == pytest.approx(0.1 * 24 / 25) and "25" in advice.next_step
    assert advice.would_take_s == pytest.approx(wall - advice.cost_s)


def test_small_tasks_that_are_few_or_long_enough_are_left_alone() -> None:
    few = [task(0.0, i * 0.0003, i * 0.0003 + 0.0001) for i in range(5)]
    assert "too small" not in titles(advise(few, [], cores=2, wall_s=1.0))
    long = [task(0.0, i * 0.0101, i * 0.0101 + 0.01) for i in range(100)]
    assert "too small" not in titles(advise(long, [get(0, 1.01)], cores=1, wall_s=1.01))


def actor_calls(count: int, workers: int) -> list[TaskRow]:
    calls = []
    for i in range(count):
        start = (i // workers) * 0.5
        calls.append(task(0.0, start, start + 0.5, name="Model.run", worker=i % workers, kind="actor_task"))
    return calls


def test_one_actor_that_serialises_the_run_is_found() -> None:
    advice = only(advise(actor_calls(10, 1), [get(0.0, 5.0)], cores=5, wall_s=5.0), "one actor")
    assert "Model (pid 100)" in advice.title and "10 calls" in advice.evidence
    assert advice.cost_s == pytest.approx(4.0) and advice.would_take_s == pytest.approx(1.0)
    assert "5 actors" in advice.next_step


def test_five_actors_side_by_side_are_not_blamed() -> None:
    assert advise(actor_calls(25, 5), [get(0.0, 2.5)], cores=5, wall_s=2.5) == []


def test_an_actor_that_runs_calls_side_by_side_is_not_blamed() -> None:
    rows = [task(0.0, 0.0, 5.0, name="A.m", kind="actor_task") for _ in range(10)]
    assert advise(rows, [get(0.0, 5.0)], cores=5, wall_s=5.0) == []


def test_an_actor_among_busy_cores_is_not_blamed() -> None:
    rows = actor_calls(10, 1) + [task(0.0, 0.0, 5.0, name="g", worker=k) for k in range(1, 5)]
    assert "one actor" not in titles(advise(rows, [get(0.0, 5.0)], cores=5, wall_s=5.0))


def test_a_straggler_that_everyone_waits_for_is_found() -> None:
    rows, _, wall = perfect(count=20, cores=4, time=0.5)
    slow = task(0.0, wall, wall + 4.0, worker=0)
    advice = only(advise([*rows, slow], [get(0.0, wall + 4)], cores=4, wall_s=wall + 4), "stragglers")
    assert slow.task_id.hex() in advice.evidence and "1 of 21" in advice.title
    assert advice.cost_s == pytest.approx(3.0) and advice.would_take_s == pytest.approx(wall + 1.0)
    assert slow.task_id.hex() in advice.next_step


def test_a_long_task_with_others_beside_it_is_no_straggler() -> None:
    rows, _, wall = perfect(count=20, cores=4, time=0.5)
    beside = task(0.0, 0.0, wall, worker=5)
    assert "stragglers" not in titles(advise([*rows, beside], [get(0.0, wall)], cores=5, wall_s=wall))


def test_the_serial_part_bounds_the_speed_up() -> None:
    rows, spans, wall = perfect(count=20, cores=4, time=0.5)
    advice = only(advise(rows, spans, cores=4, wall_s=wall + 2.5), "Amdahl")
    assert "50%" in advice.title and advice.cost_s == pytest.approx(2.5)
    # 10 s of work and 2.5 s outside: at most 5 times as fast, 2.5 times on four cores.
    assert "more than 5.0 times" in advice.evidence and "4 cores: 2.5 times" in advice.evidence
    assert advice.would_take_s == pytest.approx(wall)


def test_time_spent_waiting_for_tasks_is_not_the_programs_own() -> None:
    rows = [task(0.0, 1.0, 2.0, worker=k) for k in range(4)]
    assert "Amdahl" not in titles(advise(rows, [get(0.0, 2.0)], cores=4, wall_s=2.0))


def test_the_most_expensive_advice_comes_first_and_trifles_are_left_out() -> None:
    rows = [task(i * 0.5, i * 0.5, i * 0.5 + 0.5) for i in range(10)]
    spans = [get(i * 0.5, i * 0.5 + 0.5) for i in range(10)]
    found = advise(rows, spans, cores=5, wall_s=6.0)
    assert [advice.title.split(":")[0] for advice in found] == ["get in a loop", "Amdahl's serial part"]
    assert found[0].cost_s > found[1].cost_s
    assert len(advise(rows, spans, cores=5, wall_s=5.1)) == 1


def test_a_hundred_thousand_rows_are_no_burden() -> None:
    rows = [task(0.0, i * 0.001, i * 0.001 + 0.0009, worker=i % 8) for i in range(100_000)]
    spans = [get(i * 0.01, i * 0.01 + 0.005) for i in range(10_000)]
    assert isinstance(advise(rows, spans, cores=8, wall_s=100.0), list)
