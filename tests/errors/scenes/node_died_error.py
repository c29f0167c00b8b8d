"""When it happens: the node that ran a task is gone, and the task has no retries left. A session has other nodes than
its head only if the program adds some (`cluster_utils.Cluster`, `sundog start --address`).

What to do: most programs need nothing: a task is tried again on another node `max_retries` times, 3 by default. If
the node was killed for memory, give it fewer tasks at a time.
"""

from __future__ import annotations

from sundog.exceptions import NodeDiedError

RAISES = NodeDiedError


def happen() -> None:
    import os
    import signal
    import time

    import sundog as ray
    from sundog.cluster_utils import Cluster

    cluster = Cluster()
    cluster.add_node(num_cpus=0)
    node = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address)

    @ray.remote(max_retries=0)
    def lose_the_node(pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        time.sleep(60)

    try:
        ray.get(lose_the_node.remote(node.pid))
    finally:
        ray.shutdown()
        cluster.shutdown()
