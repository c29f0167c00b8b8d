"""What `python -m benchmarks.serve` waits for between two measurements."""

from __future__ import annotations

import os

import pytest

from benchmarks.serve import __main__ as bench


def test_a_measurement_waits_until_the_programs_have_done_what_their_load_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bench, "_REST_LOOK_S", 0.001)
    seen = iter([1.0, 2.0, 3.0, 3.0])
    assert bench.wait_for_rest([1], lambda _pid: next(seen))
    assert next(seen, None) is None


def test_a_program_that_never_rests_is_measured_beside_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "_REST_LOOK_S", 0.001)
    monkeypatch.setattr(bench, "_REST_MAX_S", 0.01)
    used = iter(range(1_000_000))
    assert not bench.wait_for_rest([1], lambda _pid: float(next(used)))


def test_processor_time_of_a_program_is_counted_and_of_one_that_is_gone_is_none() -> None:
    assert bench.cpu_s(os.getpid()) > 0
    assert bench.cpu_s(2**22 + 1) == 0
