"""Targets: what counts as reached, missed and not measured."""

from __future__ import annotations

from benchmarks.results import Results
from benchmarks.sampling import Reading
from benchmarks.targets import TARGETS, judge, summary


def ratio_results(figure: str, sundog: float, ray: float, unit: str = "/s") -> Results:
    results = Results()
    results.add("sundog", "g", [Reading(figure, unit, sundog)])
    results.add("ray", "g", [Reading(figure, unit, ray)])
    return results


def verdict_of(results: Results, name: str) -> bool | None:
    (found,) = [v for v in judge(results) if v.target.name == name]
    return found.reached


def test_a_ratio_at_the_target_is_reached_and_one_below_is_missed() -> None:
    name = "single client tasks sync, to Ray"
    assert verdict_of(ratio_results("single client tasks sync", 200, 10), name) is True
    assert verdict_of(ratio_results("single client tasks sync", 199, 10), name) is False


def test_what_was_not_measured_is_neither_reached_nor_missed() -> None:
    assert all(verdict.reached is None for verdict in judge(Results()))


def test_idle_memory_counts_smaller_as_better() -> None:
    assert verdict_of(ratio_results("idle memory", 50, 600, "MB"), "idle memory, to Ray") is True
    assert verdict_of(ratio_results("idle memory", 90, 600, "MB"), "idle memory, to Ray") is False


def test_at_most_five_idle_processes() -> None:
    assert verdict_of(ratio_results("idle processes", 5, 9, "processes"), "idle processes") is True
    assert verdict_of(ratio_results("idle processes", 6, 9, "processes"), "idle processes") is False


def test_every_other_case_must_be_five_times_rays() -> None:
    assert verdict_of(ratio_results("n:n actor calls async", 50, 10), "n:n actor calls async, to Ray") is True
    assert (
        verdict_of(ratio_results("n:n actor calls async", 49, 10), "n:n actor calls async, to Ray") is False
    )


def test_a_case_that_only_sundog_failed_stays_on_the_list() -> None:
    results = Results()
    results.add("ray", "g", [Reading("n:n actor calls async", "/s", 1.0)])
    assert verdict_of(results, "n:n actor calls async, to Ray") is None


def test_the_lowest_ratio_of_all_must_not_be_below_one() -> None:
    name = "none below Ray: the lowest is put 128 MB cold, to Ray"
    assert verdict_of(ratio_results("put 128 MB cold", 0.9, 1.0, "GB/s"), name) is False
    assert verdict_of(ratio_results("put 128 MB cold", 1.1, 1.0, "GB/s"), name) is True


def test_growth_is_judged_against_the_smaller_size_of_the_same_run() -> None:
    results = Results()
    results.add(
        "sundog",
        "growth",
        [
            Reading("10 k tasks in flight: rate", "/s", 100.0),
            Reading("1 M tasks in flight: rate", "/s", 69.0),
            Reading("1 M tasks in flight: driver memory", "B/task", 2400.0),
            Reading("wait on 1 k refs", "µs/ref", 1.0),
            Reading("wait on 10 k refs", "µs/ref", 1.6),
            Reading("get 1 k refs", "µs/ref", 1.0),
            Reading("get 100 k refs", "µs/ref", 1.4),
        ],
    )
    assert verdict_of(results, "tasks/s with 1 M in flight, to 10 k") is False
    assert verdict_of(results, "1 M tasks in flight: driver memory") is True
    assert verdict_of(results, "wait is linear: per ref, 10 k to 1 k") is False
    assert verdict_of(results, "get is linear: per ref, 100 k to 1 k") is True


def test_the_summary_counts_and_names_each_target() -> None:
    text = summary(judge(ratio_results("single client tasks sync", 300, 10)))
    assert "reached             30 ×  ≥ 20 ×" in text
    assert text.splitlines()[-1].startswith("2 reached, 0 missed, ")


def test_every_target_has_exactly_one_limit() -> None:
    assert all((t.at_least is None) != (t.at_most is None) for t in TARGETS)
