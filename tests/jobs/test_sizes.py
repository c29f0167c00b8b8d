"""Amounts of memory as people write them."""

from __future__ import annotations

import pytest

from sundog.jobs.sizes import read_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2GB", 2_000_000_000),
        ("2g", 2_000_000_000),
        ("0.5 GiB", 1 << 29),
        (" 100k ", 100_000),
        ("7", 7),
        (9, 9),
    ],
)
def test_a_size_is_read(text: str | int, size: int) -> None:
    assert read_size(text, "--memory") == size


@pytest.mark.parametrize("text", ["", "much", "-1", "0", "0GB", "2XB", "1iB", "1,5GB"])
def test_what_is_no_size_is_refused_by_the_name_of_its_option(text: str) -> None:
    with pytest.raises(ValueError, match=r"^--memory must be "):
        read_size(text, "--memory")
