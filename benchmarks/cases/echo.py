"""The bare echo with its two processes bound to two cores; a case of the raw limit alone.

Left to itself the kernel often runs both ends of an echo on one core, where a round trip is two context
switches. Work that is to run in parallel cannot stay there: then a round trip wakes another core twice. The
first is the raw limit of the table, this one explains the distance to it.
"""

from __future__ import annotations

import os

from benchmarks import work
from benchmarks.cases import measured
from benchmarks.sampling import Effort, Reading, sample_rates
from benchmarks.systems import System

NAME = "bare echo over two cores"


@measured(NAME, group="tasks", needs="echo")
def echo_over_two_cores(api: System, effort: Effort) -> list[Reading]:
    cores = os.sched_getaffinity(0)
    if len(cores) < 2:
        return [Reading(NAME, "/s", None, "this machine has one core")]
    first, second = sorted(cores)[:2]
    task = api.remote(work.small_value)
    api.pin({first}, {second})
    try:
        rates = sample_rates(lambda: api.get(task.remote()), 1, effort)
    finally:
        api.pin(cores, cores)
    return [Reading(NAME, "/s", value) for value in rates]
