"""Answers of the node that come late on purpose."""

from __future__ import annotations

import pytest

from sundog.node.delays import Delays


def test_a_request_is_named_by_the_last_word_of_its_name() -> None:
    delays = Delays("Some.service.Nodes=2000:2000, GetActor=5000:5000")
    assert [delays.seconds(each) for each in ("Nodes", "GetActor", "Status")] == [0.002, 0.005, 0.0]


def test_a_star_is_every_request_and_a_range_is_kept() -> None:
    delays = Delays("*=1000:3000")
    assert all(0.001 <= delays.seconds("Status") <= 0.003 for _ in range(50))
    assert Delays("").seconds("Status") == 0.0


@pytest.mark.parametrize("text", ["Nodes", "Nodes=1", "Nodes=2:1", "=1:2", "Nodes=-1:2", "Nodes=a:b"])
def test_an_entry_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="NAME=MIN:MAX"):
        Delays(text)
