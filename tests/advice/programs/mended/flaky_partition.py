"""Partitions are computed, then written to a store that refuses the first two tries."""

import os
import tempfile
import time

import sundog as ray

SEEN = tempfile.mkdtemp()


def write(partition):
    path = os.path.join(SEEN, f"{partition}")
    tries = len(open(path).read()) if os.path.exists(path) else 0
    with open(path, "a") as out:
        out.write("x")
    if partition % 3 == 0 and tries < 2:
        raise ConnectionError(f"store refused partition {partition}")
    return tries


@ray.remote(max_retries=5, retry_exceptions=[ConnectionError])
def export(partition):
    time.sleep(0.25)
    for _ in range(5):
        try:
            return write(partition)
        except ConnectionError:
            time.sleep(0.01)


ray.init(num_cpus=4)
pending = [export.remote(partition) for partition in range(18)]
while pending:
    done, pending = ray.wait(pending, num_returns=min(4, len(pending)))
    print(f"{len(done)} exported, {len(pending)} left")
