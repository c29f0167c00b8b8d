"""When it happens: an actor can never be placed where it must: its hard node affinity names a node that is not
there, or the placement group it waited for was removed.

What to do: use `soft=True`, a node id from `sundog.nodes()`, or a placement group that exists.
"""

from __future__ import annotations

from sundog.exceptions import ActorUnschedulableError

RAISES = ActorUnschedulableError


def happen() -> None:
    import sundog as ray
    from sundog.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    ray.init(num_cpus=1)
    elsewhere = NodeAffinitySchedulingStrategy(node_id="ab" * 16, soft=False)

    @ray.remote(scheduling_strategy=elsewhere)
    class Counter:
        def count(self) -> int:
            return 1

    counter = Counter.remote()
    ray.get(counter.count.remote())
