"""A program with a planted fault: too-many-workers. Run by tests/advice/table.py."""

import time

import sundog as ray

ray.init(num_cpus=8)  # fault: too-many-workers

_model = []


@ray.remote
def score(x):
    if not _model:
        burn(0.3)
        _model.append(1)
    burn(0.02)
    return x


def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


ray.get([score.remote(x) for x in range(32)])
