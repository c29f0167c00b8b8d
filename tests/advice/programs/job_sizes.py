"""Simulations of different lengths, from a list of jobs."""

import time
from dataclasses import dataclass

import sundog as ray


@dataclass(order=True)
class Job:
    steps: int
    name: str


@ray.remote
def simulate(job):
    time.sleep(job.steps / 1000)
    return job.name, job.steps


def jobs():
    yield from (Job(150 + 5 * n, f"run-{n}") for n in range(18))
    yield Job(1100, "long-run")


ray.init(num_cpus=4)
results = ray.get([simulate.remote(job) for job in jobs()])  # fault: stragglers
print(f"{len(results)} jobs, the longest: {max(results, key=lambda r: r[1])}")
