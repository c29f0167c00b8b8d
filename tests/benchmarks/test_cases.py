"""The cases: their names, their choice, and the pure parts of pay-off and growth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.cases import all_cases, choose, echo, growth, payoff
from benchmarks.cases.growth import climb, size_name
from benchmarks.cases.payoff import Probe, rising, shortest_reaching, sweep
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


def probe_of(overhead_s: float) -> Callable[[float], Probe]:
    """Two perfect cores, and this much work around each task."""

    def probe(duration_s: float) -> Probe:
        speed_up = 2 / (1 + overhead_s / duration_s)
        return Probe(duration_s, speed_up, speed_up / 2)

    return probe


def shortest_paying(probe: Callable[[float], Probe]) -> float | None:
    probes = sweep(probe)
    return shortest_reaching(1.5, [each.duration_s for each in probes], [each.to_loop for each in probes])


@pytest.mark.parametrize("edge_s", [0.00012, 0.003, 0.04])
def test_the_shortest_paying_duration_is_found_between_the_measured_ones(edge_s: float) -> None:
    found = shortest_paying(probe_of(edge_s / 3))  # 2 / (1 + 1/3) is 1.5
    assert found is not None
    assert edge_s / 1.05 <= found <= edge_s * 1.05


def test_seconds_in_which_a_machine_is_slow_do_not_mislead_the_search() -> None:
    true = probe_of(0.0002)
    probes = 0

    def probe(duration_s: float) -> Probe:
        nonlocal probes
        probes += 1
        slow = 0.6 if 10 <= probes % 40 < 18 else 1.0
        return Probe(duration_s, true(duration_s).to_loop * slow, 1.0)

    found = shortest_paying(probe)
    assert found is not None
    assert 0.0005 <= found <= 0.0008


def test_durations_that_are_far_off_are_measured_once() -> None:
    tried: Counter[float] = Counter()

    def probe(duration_s: float) -> Probe:
        tried[duration_s] += 1
        return Probe(duration_s, 0.1 if duration_s < 1e-3 else 1.9, 1.0)

    sweep(probe)
    assert {tried[duration_s] for duration_s in tried if duration_s < 1e-3} == {1}
    assert {tried[duration_s] for duration_s in tried if duration_s >= 1e-3} == {payoff.SWEEPS}


def test_a_duration_is_what_a_task_took_in_the_loop_not_what_was_planned() -> None:
    probes = sweep(lambda planned_s: Probe(planned_s * 0.7, 1.0, 1.0), (1e-3, 1e-2))
    assert [each.duration_s for each in probes] == pytest.approx([0.7e-3, 0.7e-2])


def test_a_system_for_which_nothing_pays_gives_no_duration() -> None:
    assert shortest_reaching(1.5, (1e-5, 1e-4), (1.4, 1.4)) is None


def test_a_system_for_which_everything_pays_gives_the_lower_end() -> None:
    assert shortest_reaching(1.5, (1e-5, 1e-4), (1.6, 1.6)) == 1e-5


def test_two_bare_processes_count_and_are_gone_when_closed() -> None:
    pair = payoff.TwoProcesses()
    try:
        pair.spin(3, 1000)
    finally:
        pair.close()
    assert [process.returncode for process in pair.processes] == [0, 0]


class Refs:
    """A system whose refs are numbers."""

    def put(self, value: int) -> int:
        return value


def test_sizes_of_a_get_or_wait_are_compared_in_turn() -> None:
    acted: list[int] = []
    readings = growth._over_refs(Refs(), (10, 100), "get", lambda refs: acted.append(len(refs)), 5.0)  # type: ignore[arg-type]
    assert acted[-2 * growth.TURNS :] == [10, 100] * growth.TURNS
    assert len(readings) == len(acted)
    assert {reading.figure for reading in readings} == {"get 10 refs", "get 100 refs"}


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine may be slow
@given(st.lists(st.floats(0, 10), max_size=20))
def test_the_fitted_curve_never_falls_and_keeps_the_sum(values: list[float]) -> None:
    curve = rising(values)
    assert len(curve) == len(values)
    assert all(a <= b + 1e-9 for a, b in pairwise(curve))
    assert sum(curve) == pytest.approx(sum(values))


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


def test_small_sizes_are_sampled_three_times_before_the_largest_and_after_it() -> None:
    readings = climb_with(Clock(), 0.1, (1, 20), cap_s=3.0)
    assert [reading.figure for reading in readings] == ["1", "1", "1", "20", "1", "1", "1"]


def test_memory_is_sampled_once_because_a_second_time_reuses_what_was_freed() -> None:
    both = [Reading("memory", "B/task", 1.0), Reading("rate", "/s", 1.0)]
    readings = climb((1,), lambda size: list(both), lambda size: [], 1.0, Clock())
    assert [reading.figure for reading in readings] == ["memory", *["rate"] * 6]


def test_sizes_are_named_as_people_say_them() -> None:
    assert [size_name(n) for n in (10, 1_000, 100_000, 1_000_000)] == ["10", "1 k", "100 k", "1 M"]
