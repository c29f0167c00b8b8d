"""The words of a lane can be told apart."""

from __future__ import annotations

from collections import Counter

from sundog.wire import lanes


def test_no_two_kinds_of_reply_share_a_number() -> None:
    kinds = Counter(value for name, value in vars(lanes).items() if name.startswith("R_"))
    assert len(kinds) > 10
    assert not [number for number, count in kinds.items() if count > 1]


def test_no_two_extras_of_an_item_share_a_key() -> None:
    keys = Counter(value for name, value in vars(lanes).items() if name.startswith("EXTRA_"))
    assert len(keys) > 5
    assert not [key for key, count in keys.items() if count > 1]
