"""The soak's judge: noise and saw-teeth are flat, growth is found, however it is hidden."""

from __future__ import annotations

import random

import pytest

from tests.soak.judge import COUNT, DESCRIPTORS, MEMORY, Kind, Line, judge, slope


def line(values: list[float], kind: Kind = MEMORY) -> Line:
    return Line("figure", kind, [(float(second), value) for second, value in enumerate(values)])


def test_noise_around_a_level_is_flat() -> None:
    dice = random.Random(1)
    assert judge(line([50 + dice.gauss(0, 3) for _ in range(200)])).flat


def test_a_line_that_fills_up_in_its_first_half_is_flat() -> None:
    assert judge(line([min(second, 60) for second in range(200)])).flat


def test_slow_growth_under_noise_is_found() -> None:
    dice = random.Random(2)
    verdict = judge(line([50 + 0.1 * second + dice.gauss(0, 3) for second in range(200)]))
    assert not verdict.flat
    assert verdict.growth == pytest.approx(10, rel=0.4)
    assert verdict.text().startswith("GROWS")


def test_a_saw_tooth_is_flat_and_one_that_rises_is_not() -> None:
    teeth = [float(second % 8) for second in range(200)]
    assert judge(line(teeth)).flat
    assert not judge(line([tooth + 0.1 * second for second, tooth in enumerate(teeth)])).flat


def test_one_burst_at_the_end_is_no_growth() -> None:
    assert judge(line([50.0] * 195 + [500.0] * 5)).flat


def test_what_becomes_less_is_no_growth() -> None:
    assert judge(line([200.0 - second for second in range(200)])).flat


def test_a_descriptor_every_ten_seconds_is_found() -> None:
    assert not judge(line([20.0 + second // 10 for second in range(200)], DESCRIPTORS)).flat


def test_the_share_is_of_the_level() -> None:
    grows_by_five = [100.0 + second / 20 for second in range(200)]
    assert judge(line(grows_by_five, COUNT)).flat
    assert not judge(line([value - 95 for value in grows_by_five], COUNT)).flat


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="2 samples in the second half"):
        judge(line([1.0, 2.0, 3.0]))
    assert slope([(1.0, 5.0)]) == 0.0
