"""Amounts as people read them."""

from __future__ import annotations

import pytest

from sundog.observe.words import in_units, in_words


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (-2048, "-2.0 KiB"),
        (5 * 2**20, "5.0 MiB"),
        (2**30, "1.0 GiB"),
        (3.5 * 2**40, "3.5 TiB"),
        (5000 * 2**40, "5000.0 TiB"),
    ],
)
def test_bytes_are_told_in_the_unit_that_suits_them(size: float, text: str) -> None:
    assert in_units(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (10.9, "10 s"),
        (59.9, "59 s"),
        (60, "1 min 0 s"),
        (3599, "59 min 59 s"),
        (3725, "1 h 2 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_a_duration_is_told_in_its_two_largest_units(seconds: float, text: str) -> None:
    assert in_words(seconds) == text
