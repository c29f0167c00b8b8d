"""A node is lost in the middle of a computation, and the answer is right all the same.

Three nodes on one machine: a head that runs no tasks, and two workers. Squares are summed over a tree of tasks whose
intermediate results are large. Half-way through, one worker node is killed with everything on it: the tasks that it
ran, and the results that were only there. Both are made again on the node that is left.

With the name of a file, the timeline of the run is written there (open it at https://ui.perfetto.dev): squares that had
finished run once more, after the moment at which the node was lost.
"""

import sys
import time

import numpy as np
import ray
from ray.cluster_utils import Cluster
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

PARTS = 8
SIZE = 200_000


@ray.remote
def squares(part):
    first = part * SIZE
    return np.arange(first, first + SIZE, dtype=np.float64) ** 2


@ray.remote
def add(left, right):
    return left + right


def alive():
    return sum(node["Alive"] for node in ray.nodes())


def main():
    cluster = Cluster()
    cluster.add_node(num_cpus=0)
    workers = [cluster.add_node(num_cpus=1) for _ in range(2)]
    ray.init(address=cluster.address)
    print("nodes:", alive())

    # Half of the parts on each node, as long as it is there.
    there = [NodeAffinitySchedulingStrategy(worker.node_id, soft=True) for worker in workers]
    layer = [squares.options(scheduling_strategy=there[part % 2]).remote(part) for part in range(PARTS)]
    ray.wait(layer, num_returns=PARTS, fetch_local=False)
    cluster.remove_node(workers[0], allow_graceful=False)
    while alive() > 2:  # a cluster may learn of it a moment later
        time.sleep(0.1)
    print("one node is lost; alive:", alive())

    while len(layer) > 1:
        layer = [add.remote(*pair) for pair in zip(layer[::2], layer[1::2])]
    total = float(ray.get(layer[0]).sum())

    expected = float((np.arange(PARTS * SIZE, dtype=np.float64) ** 2).reshape(PARTS, SIZE).sum())
    print("the answer is right:", abs(total - expected) < 1e-6 * expected)
    if len(sys.argv) > 1:
        ray.timeline(sys.argv[1])
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main()
