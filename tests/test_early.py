"""The environment that our programs start with, and the one that they hand on."""

from __future__ import annotations

import pytest

from sundog.early import tuned, untuned

OURS = "glibc.cpu.x86_non_temporal_threshold=0x800000"


@pytest.mark.parametrize(
    "given", [{}, {"A": "b"}, {"GLIBC_TUNABLES": "glibc.malloc.check=3:glibc.malloc.perturb=1"}]
)
def test_a_program_starts_with_our_setting_and_hands_on_the_users(given: dict[str, str]) -> None:
    started = tuned(given)
    assert started["GLIBC_TUNABLES"].split(":")[0] == OURS
    for name, value in untuned(started).items():
        if value is None:
            del started[name]
        else:
            started[name] = value
    assert started == given


def test_what_the_user_chose_is_left_alone() -> None:
    given = {"GLIBC_TUNABLES": "glibc.cpu.x86_non_temporal_threshold=0x100000"}
    assert tuned(given) == given
    assert untuned(given) == {}
    assert untuned({}) == {}
