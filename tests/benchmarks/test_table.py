"""The Markdown table of benchmark results."""

from __future__ import annotations

import pytest

from benchmarks.results import Results
from benchmarks.sampling import Reading
from benchmarks.table import markdown, number, report, short


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "—"),
        (0, "0"),
        (84123.4, "84,100"),
        (1234567.0, "1,230,000"),
        (999.6, "1,000"),
        (123.4, "123"),
        (12.34, "12.3"),
        (1.234, "1.23"),
        (0.01234, "0.0123"),
    ],
)
def test_numbers_are_shown_with_three_digits(value: float | None, shown: str) -> None:
    assert number(value) == shown


def sample() -> Results:
    results = Results()
    results.add("sundog", "tasks", [Reading("sync", "/s", 9000.0)])
    results.add("ray", "tasks", [Reading("sync", "/s", 300.0)])
    results.add("raw", "tasks", [Reading("sync", "/s", 18000.0)])
    results.add("sundog", "objects", [Reading("put", "GB/s", 2.0)])
    return results


def test_a_row_shows_medians_and_the_ratios_to_ray_and_to_the_raw_limit() -> None:
    lines = markdown(sample()).splitlines()
    assert lines[0] == "|  | unit | sundog | Ray | raw limit | sundog : Ray | sundog : raw limit |"
    assert "| sync | /s | 9,000 | 300 | 18,000 | 30 × | 0.5 × |" in lines


def test_only_speeds_are_compared_with_the_raw_limit() -> None:
    results = sample()
    for system in ("sundog", "raw"):
        results.add(system, "start-up", [Reading("import", "ms", 5.0)])
    assert "| import | ms | 5 | — | 5 | — | — |" in markdown(results)


def test_a_case_that_does_not_exist_in_a_system_shows_a_dash() -> None:
    assert "| put | GB/s | 2 | — | — | — | — |" in markdown(sample())


def test_a_failure_is_shown_in_its_cell_and_explained_below() -> None:
    results = sample()
    results.fail("ray", "put", "ValueError: a|b")
    results.settle()
    text = markdown(results)
    assert "| put | GB/s | 2 | failed <sup>1</sup> | — | — | — |" in text
    assert "1. Ray: ValueError: a|b" in text


def test_equal_reasons_share_one_footnote() -> None:
    results = sample()
    results.fail("ray", "put", "did not start")
    results.fail("ray", "get", "did not start")
    results.settle()
    assert markdown(results).count("Ray: did not start") == 1


def test_a_size_left_out_is_marked_and_explained() -> None:
    results = sample()
    results.add("ray", "growth", [Reading("1 M", "/s", None, "left out: about 900 s")])
    text = markdown(results)
    assert "left out <sup>1</sup>" in text
    assert "1. Ray: left out: about 900 s" in text


def test_every_row_has_as_many_cells_as_the_header() -> None:
    lines = [line for line in markdown(sample()).splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1


def test_the_report_says_how_and_where_it_was_made() -> None:
    results = sample()
    results.versions = {"sundog": "0.1.0", "ray": "2.60.0", "raw": "3.11.9"}
    results.facts = {
        "command": "python -m benchmarks --quick",
        "made": "2030-01-02",
        "cores": 2,
        "cpu": "Some CPU",
        "memory_gb": 24,
        "kernel": "6.1",
        "python": "3.11.9",
        "rounds": 3,
        "missing": ["dask"],
    }
    text = report(results)
    assert "`python -m benchmarks --quick` on 2030-01-02: 2 cores (Some CPU), 24 GB" in text
    assert "sundog 0.1.0, Ray 2.60.0." in text
    assert "Not installed, so not measured: Dask." in text


def test_the_short_table_has_its_own_titles_and_leaves_out_what_was_not_measured() -> None:
    results = Results()
    results.add(
        "sundog", "tasks", [Reading("single client tasks sync", "/s", 9000.0), Reading("other", "/s", 1.0)]
    )
    results.add("ray", "tasks", [Reading("single client tasks sync", "/s", 300.0)])
    assert short(results).splitlines()[2:] == ["| tasks, one at a time | /s | 9,000 | 300 | 30 × |"]
