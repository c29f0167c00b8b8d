"""When it happens: a task can never run where it must: its `NodeAffinitySchedulingStrategy` with `soft=False`
names a node that is not there. A task that merely asks for more than the session has stays pending, with a
warning.

What to do: use `soft=True`, or a node id from `sundog.nodes()`.
"""

from __future__ import annotations

from sundog.exceptions import TaskUnschedulableError

RAISES = TaskUnschedulableError


def happen() -> None:
    import sundog as ray
    from sundog.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    ray.init(num_cpus=1)
    elsewhere = NodeAffinitySchedulingStrategy(node_id="ab" * 16, soft=False)

    @ray.remote(scheduling_strategy=elsewhere)
    def work() -> None:
        pass

    ray.get(work.remote())
