"""Sampling against a clock of our own."""

from __future__ import annotations

import pytest

from benchmarks.sampling import Effort, sample_rates, time_call


class Machine:
    """A clock that moves only while the measured call runs."""

    def __init__(self, call_s: float) -> None:
        self.now = 0.0
        self.calls = 0
        self.call_s = call_s

    def call(self) -> None:
        self.calls += 1
        self.now += self.call_s

    def clock(self) -> float:
        return self.now


def test_a_short_call_gives_as_many_samples_as_asked_and_its_true_rate() -> None:
    machine = Machine(call_s=0.001)
    rates = sample_rates(machine.call, 10, Effort(warm_s=0.1, sample_s=0.6, samples=3), machine.clock)
    assert rates == [pytest.approx(10_000)] * 3


def test_a_call_longer_than_the_sample_is_made_once_to_warm_up_and_once_to_measure() -> None:
    machine = Machine(call_s=4.0)
    rates = sample_rates(machine.call, 1000, Effort(warm_s=0.1, sample_s=0.6, samples=3), machine.clock)
    assert rates == [pytest.approx(250)]
    assert machine.calls == 2


def test_a_very_long_call_is_made_only_once() -> None:
    machine = Machine(call_s=8.0)
    assert sample_rates(machine.call, 1000, Effort(long_s=5.0), machine.clock) == [pytest.approx(125)]
    assert machine.calls == 1


def test_warming_up_lasts_as_long_as_asked() -> None:
    machine = Machine(call_s=0.25)
    sample_rates(machine.call, 1, Effort(warm_s=1.0, sample_s=0.25, samples=1), machine.clock)
    assert machine.calls == 4 + 1


def test_one_call_is_timed_by_the_clock_around_it() -> None:
    machine = Machine(call_s=0.5)
    assert time_call(machine.call, machine.clock) == 0.5
