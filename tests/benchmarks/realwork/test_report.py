"""The tables of the real programs."""

from __future__ import annotations

from benchmarks.realwork.report import Row, best, page, standing, tables
from benchmarks.realwork.running import Outcome


def outcome(wall_s: float, *seconds: float) -> Outcome:
    return Outcome(wall_s, wall_s, 10.0, seconds or (wall_s,), None)


def test_the_best_is_the_least_and_a_system_without_a_figure_is_left_out() -> None:
    assert best({"sundog": 2.0, "ray": None, "pool": 1.0}) == "pool"
    assert best({"sundog": None}) is None


def test_sundog_is_first_or_near_or_behind_by_a_factor() -> None:
    assert standing({"sundog": 1.0, "ray": 2.0}) == "first"
    assert standing({"sundog": 1.05, "pool": 1.0}) == "near (1.05 × multiprocessing)"
    assert standing({"sundog": 3.0, "pool": 1.0}) == "**3.00 × multiprocessing**"
    assert standing({"sundog": None, "pool": 1.0}) == "—"


def test_the_warm_time_is_the_best_repetition_after_the_first() -> None:
    assert outcome(9.0, 5.0, 2.0, 3.0).warm_s == 2.0
    assert outcome(9.0, 5.0).warm_s is None


def test_a_cell_is_a_median_over_the_rounds_and_a_failure_is_explained_below() -> None:
    row = Row(
        {"sundog": [outcome(1.0), outcome(3.0), outcome(2.0)]},
        {"ray": "ended with 1; it last said: on 10.0.0.7"},
    )
    text = tables({"imap": row}, ["sundog", "ray"])
    assert "| Pool.imap_unordered, 20,000 items, chunk size 1 | 2 | failed | first |" in text
    assert text.endswith("Ray: ended with 1")


def test_the_page_says_where_and_when_it_was_measured() -> None:
    machine = {
        "cores": 2,
        "cpu": "a processor",
        "memory_gb": 8.0,
        "kernel": "6.1",
        "python": "3.11",
        "busy_before": 0.25,
    }
    text = page({"imap": Row({"sundog": [outcome(1.0), outcome(2.0)]})}, ["sundog"], machine, "2026-01-02")
    assert text.startswith("Made by `python -m benchmarks.realwork` on 2026-01-02: 2 cores (a processor)")
    assert "other programs had 25 % of the cores" in text
    assert "up to 2 start(s)" in text
    assert "| Pool.imap_unordered, 20,000 items, chunk size 1 | 1.50 | first |" in text
