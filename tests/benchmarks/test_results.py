"""Medians, ratios, failures and JSON of benchmark results."""

from __future__ import annotations

import json

import pytest

from benchmarks.results import Results, clean, from_json
from benchmarks.sampling import Reading


def results_with(unit: str, **values: list[float]) -> Results:
    results = Results()
    for system, samples in values.items():
        results.add(system, "tasks", [Reading("sync", unit, value) for value in samples])
    return results


def test_the_median_is_taken_over_the_samples_of_all_rounds() -> None:
    results = results_with("/s", ray=[1.0, 100.0])
    results.add("ray", "tasks", [Reading("sync", "/s", 3.0)])
    assert results.median("sync", "ray") == 3.0


def test_a_ratio_above_one_is_better_for_rates_and_for_times() -> None:
    assert results_with("/s", sundog=[100.0], ray=[10.0]).ratio("sync", "sundog", "ray") == 10.0
    assert results_with("ms", sundog=[10.0], ray=[100.0]).ratio("sync", "sundog", "ray") == 10.0


def test_a_ratio_to_a_system_without_samples_is_none() -> None:
    assert results_with("/s", sundog=[100.0]).ratio("sync", "sundog", "ray") is None
    assert Results().ratio("unknown", "sundog", "ray") is None


def test_a_ratio_with_nothing_to_divide_by_is_none() -> None:
    assert results_with("processes", sundog=[0.0], ray=[3.0]).ratio("sync", "sundog", "ray") is None


def test_a_failed_case_without_a_figure_gets_a_line_of_its_own() -> None:
    results = results_with("/s", ray=[1.0])
    results.fail("ray", "actors at once", "ValueError: no")
    results.settle(["tasks"])
    assert results.figures["actors at once"].failures == {"ray": "ValueError: no"}
    assert results.systems() == ["ray"]


def test_a_failure_after_good_samples_is_kept_beside_them() -> None:
    results = results_with("/s", ray=[1.0])
    results.fail("ray", "sync", "the host ended with -9")
    results.settle()
    assert results.figures["sync"].failures["ray"] == "the host ended with -9"
    assert results.median("sync", "ray") == 1.0


def test_a_failure_before_the_first_sample_of_anyone_reaches_the_later_figure() -> None:
    results = Results()
    results.fail("sundog", "sync", "did not start")
    results.add("ray", "tasks", [Reading("sync", "/s", 2.0)])
    results.settle()
    assert results.figures["sync"].failures == {"sundog": "did not start"}
    assert results.figures["sync"].group == "tasks"


def test_a_figure_left_out_keeps_its_reason() -> None:
    results = Results()
    results.add("ray", "growth", [Reading("1 M", "/s", None, "left out: about 900 s")])
    assert results.figures["1 M"].notes == {"ray": "left out: about 900 s"}
    assert results.median("1 M", "ray") is None


def test_results_survive_json() -> None:
    results = results_with("/s", sundog=[5.0, 6.0, 7.0], ray=[1.0])
    results.fail("dask", "sync", "KeyError: 'x'")
    results.versions["ray"] = "2.60.0"
    results.settle()
    again = from_json(json.loads(json.dumps(results.as_json())))
    assert again.figures == results.figures
    assert again.versions == results.versions


def test_results_of_another_schema_are_refused() -> None:
    with pytest.raises(ValueError, match="schema 99"):
        from_json({"schema": 99})


def test_published_errors_hold_no_path_and_fit_one_line() -> None:
    text = clean("\x1b[31mOSError\x1b[0m: cannot open\n  /home/someone/project/data.bin and a/b", limit=300)
    assert text == "OSError: cannot open data.bin and a/b"
    assert len(clean("x" * 1000, limit=50)) == 50
