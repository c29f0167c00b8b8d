"""Sampling the threads of this process."""

from __future__ import annotations

import threading
import time

from sundog.profiling.sampler import StackSampler


def test_cpu_time_counts_who_computes_and_wall_time_who_waits() -> None:
    stop = threading.Event()

    def compute() -> None:
        while not stop.is_set():
            sum(range(1000))

    def wait() -> None:
        stop.wait()

    threads = [threading.Thread(target=each, name=each.__name__) for each in (compute, wait)]
    samplers = [StackSampler("cpu", role="driver"), StackSampler("wall", role="driver")]
    for thread in threads:
        thread.start()
    for sampler in samplers:
        sampler.start()
    deadline = time.monotonic() + 120

    def seconds(sampler: StackSampler, name: str) -> float:
        found = sampler.result().stacks.items()
        return sum(
            spent for (_, stack), (spent, _) in found if any(frame.name.endswith(name) for frame in stack)
        )

    try:
        while seconds(samplers[0], "compute") < 0.05 or seconds(samplers[1], "<locals>.wait") < 0.05:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert seconds(samplers[0], "<locals>.wait") < seconds(samplers[0], "compute") / 5
    finally:
        stop.set()
        for sampler in samplers:
            sampler.stop()
        for thread in threads:
            thread.join()
