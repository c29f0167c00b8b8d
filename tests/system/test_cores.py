"""The kernel's count of the time that a process waited for a core."""

from __future__ import annotations

from pathlib import Path

from sundog.system.cores import core_wait_s


def test_the_second_number_is_the_wait_in_nanoseconds(tmp_path: Path) -> None:
    told = tmp_path / "schedstat"
    told.write_text("80000000 2500000000 17\n")
    assert core_wait_s(str(told)) == 2.5


def test_a_kernel_that_keeps_no_count_gives_nothing(tmp_path: Path) -> None:
    empty = tmp_path / "schedstat"
    empty.write_text("")
    assert core_wait_s(str(empty)) == 0.0
    assert core_wait_s(str(tmp_path / "none")) == 0.0


def test_the_wait_only_grows() -> None:
    before = core_wait_s()
    assert core_wait_s() >= before >= 0.0
