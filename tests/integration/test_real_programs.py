"""Real programs of the benchmarks on a real session: sundog gives the serial result. The small ones only."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.realwork import load


@pytest.mark.parametrize("workload", ["cold_script", "json_files", "word_count", "parameter_server"])
def test_sundog_gives_the_serial_result(ray: Any, workload: str) -> None:
    module = load(workload)
    assert module.raylike(ray) == module.serial()
