"""The vocabulary of lanes: no two words mean the same number."""

from __future__ import annotations

import pytest

from sundog.wire import lanes


@pytest.mark.parametrize("family", ["R_", "EXTRA_"])
def test_every_word_of_a_lane_has_a_value_of_its_own(family: str) -> None:
    words = {name: value for name, value in vars(lanes).items() if name.startswith(family)}
    assert len(words) > 5
    assert len(set(words.values())) == len(words), words
