"""The cases: their names, their choice, and the pure parts of pay-off and growth."""

from __future__ import annotations

import pytest

from benchmarks.cases import all_cases, choose, echo, payoff
from benchmarks.cases.growth import climb, size_name
from benchmarks.cases.payoff import shortest_paying
from benchmarks.sampling import Reading
from benchmarks.systems import NAMES, open_system

RAY_MICROBENCHMARK = {
    "single client get calls (Plasma Store)",
    "single client put calls (Plasma Store)",
    "multi client put calls (Plasma Store)",
    "single client put gigabytes",
    "single client tasks and get batch",
    "multi client put gigabytes",
    "single client get object containing 10k refs",
    "single client wait 1k refs",
    "single client tasks sync",
    "single client tasks async",
    "multi client tasks async",
    "1:1 actor calls sync",
    "1:1 actor calls async",
    "1:1 actor calls concurrent",
    "1:n actor calls async",
    "n:n actor calls async",
    "n:n actor calls with arg async",
    "1:1 async-actor calls sync",
    "1:1 async-actor calls async",
    "1:1 async-actor calls with args async",
    "1:n async-actor calls async",
    "n:n async-actor calls async",
    "placement group create/removal",
}


def test_every_case_of_rays_microbenchmark_is_there_under_its_name() -> None:
    assert {case.name for case in all_cases()} >= RAY_MICROBENCHMARK


def test_sundog_and_ray_take_part_in_every_case_but_those_of_the_bare_machine() -> None:
    for name in ("sundog", "ray"):
        features = open_system(name).features
        assert [case.name for case in all_cases() if not case.needs <= features] == [
            echo.NAME,
            payoff.BARE,
        ]


def test_what_a_case_needs_is_offered_by_somebody() -> None:
    offered = frozenset[str]().union(*(open_system(name).features for name in NAMES))
    assert frozenset[str]().union(*(case.needs for case in all_cases())) <= offered


def test_quick_chooses_the_headlines_and_only_filters_by_name_or_group() -> None:
    quick = choose(all_cases(), quick=True)
    assert all(case.headline for case in quick)
    assert {case.name for case in choose(quick, only="TASKS")} == {
        "single client tasks sync",
        "single client tasks async",
    }
    assert {case.group for case in choose(all_cases(), only="^growth, tasks$")} == {"growth, tasks"}


@pytest.mark.parametrize("edge_s", [0.00012, 0.003, 0.04])
def test_the_shortest_paying_duration_is_found_to_within_the_factor(edge_s: float) -> None:
    found = shortest_paying(lambda duration: duration >= edge_s, 1e-5, 0.05, 1.2)
    assert found is not None
    assert edge_s <= found <= edge_s * 1.2


def test_a_system_for_which_nothing_pays_gives_no_duration() -> None:
    assert shortest_paying(lambda duration: False) is None


def test_a_system_for_which_everything_pays_gives_the_lower_end() -> None:
    assert shortest_paying(lambda duration: True, 1e-5, 0.05) == 1e-5


class Clock:
    """Stands in for the clock that `time_call` reads; moves only when a step runs."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def climb_with(clock: Clock, per_item_s: float, sizes: tuple[int, ...], cap_s: float) -> list[Reading]:
    def step(size: int) -> list[Reading]:
        clock.now += size * per_item_s
        return [Reading(f"{size}", "s", size * per_item_s)]

    return climb(sizes, step, lambda size: [(f"{size}", "s")], cap_s, clock)


def test_a_size_that_would_exceed_the_cap_is_noted_not_measured() -> None:
    readings = climb_with(Clock(), 0.01, (100, 1000, 10_000), cap_s=20.0)
    assert [(r.figure, r.value) for r in readings] == [("100", 1.0), ("1000", 10.0), ("10000", None)]
    assert "about 100 s" in readings[-1].note


def test_small_sizes_are_sampled_three_times() -> None:
    assert len(climb_with(Clock(), 0.1, (1,), cap_s=1.0)) == 3


def test_memory_is_sampled_once_because_a_second_time_reuses_what_was_freed() -> None:
    both = [Reading("memory", "B/task", 1.0), Reading("rate", "/s", 1.0)]
    readings = climb((1,), lambda size: list(both), lambda size: [], 1.0, Clock())
    assert [reading.figure for reading in readings] == ["memory", "rate", "rate", "rate"]


def test_sizes_are_named_as_people_say_them() -> None:
    assert [size_name(n) for n in (10, 1_000, 100_000, 1_000_000)] == ["10", "1 k", "100 k", "1 M"]
