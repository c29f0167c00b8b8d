"""Real programs of the benchmarks on a real session: sundog gives the serial result. The small ones only."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.realwork import load

SMALL = [
    "actor_pool",
    "cold_script",
    "etl",
    "fan_out",
    "halving",
    "json_files",
    "parameter_server",
    "ring_chat",
    "shuffle_arrays",
    "stream",
    "thumbnails",
    "tree_reduce",
    "trials",
    "word_count",
]


@pytest.mark.parametrize("workload", SMALL)
def test_sundog_gives_the_serial_result(ray: Any, workload: str) -> None:
    module = load(workload)
    assert module.raylike(ray) == module.serial()
