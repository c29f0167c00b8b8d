"""Cells and addresses of tables."""

from __future__ import annotations

from sundog.dashboard.page.tables import ROWS, clock, seconds, short, size, wanted_of


def test_an_address_says_which_part_of_a_list_is_shown() -> None:
    wanted = wanted_of("f", "failed", "duration", "0", "3")
    assert (wanted.text, wanted.state, wanted.sort, wanted.descending) == ("f", "failed", "duration", False)
    assert (wanted.first, wanted.most) == (2 * ROWS, ROWS)


def test_nonsense_in_an_address_counts_as_nothing() -> None:
    wanted = wanted_of("", "", "", "x", "-1")
    assert (wanted.first, wanted.state, wanted.descending) == (0, "all", True)
    assert wanted_of("", "", "", "", "0").first == 0


def test_what_is_not_known_is_empty() -> None:
    assert (seconds(None), size(None), size(-1), clock(None), clock(0), short(None)) == ("",) * 6
    assert short("0123456789abcdef") == "0123456789ab…"
