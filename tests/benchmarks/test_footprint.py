"""Reading process trees and machine facts."""

from __future__ import annotations

import os

import pytest

from benchmarks.footprint import descendants, living_below, parse_stat, pss_bytes
from benchmarks.machine import cpu_model

STAT = "4242 (a (b) c) S 17 4242 17 0 -1 4194304 9 0 0 0 250 50 0 0 20 0 7 0 100 200 300"


def test_a_process_name_with_blanks_and_parentheses_does_not_shift_the_fields() -> None:
    parent, state, threads, cpu_s = parse_stat(STAT)
    assert (parent, state, threads) == (17, "S", 7)
    assert cpu_s == pytest.approx(300 / os.sysconf("SC_CLK_TCK"))


def test_descendants_are_found_over_several_generations_and_others_are_not() -> None:
    assert descendants(1, [(2, 1), (3, 2), (4, 3), (5, 9), (1, 0)]) == {2, 3, 4}


def test_this_process_is_below_its_parent_and_uses_memory() -> None:
    threads, cpu_s = living_below(os.getppid())[os.getpid()]
    assert threads >= 1
    assert cpu_s > 0
    assert pss_bytes(os.getpid()) > 1_000_000


def test_a_process_that_is_gone_uses_no_memory() -> None:
    assert pss_bytes(2**22 + 1) == 0


def test_the_cpu_model_is_read_from_cpuinfo() -> None:
    assert cpu_model("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n") == "Some CPU @ 2 GHz"
    assert cpu_model("") == os.uname().machine
