"""Say where work runs and what it needs: resources, placement groups, strategies."""

import os
import time

import ray
from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy


@ray.remote(num_cpus=0, resources={"disk": 1})
def uses_disk() -> float:
    return ray.get_runtime_context().get_assigned_resources()["disk"]


@ray.remote(num_cpus=1)
class Pinned:
    def where(self) -> tuple[str, int]:
        return ray.get_runtime_context().get_node_id(), os.getpid()


@ray.remote
def node_here() -> str:
    return ray.get_runtime_context().get_node_id()


def is_gone(actor: "ray.actor.ActorHandle") -> bool:
    try:
        ray.get(actor.where.remote())
    except ray.exceptions.RayActorError:
        return True
    return False


def main() -> None:
    ray.init(num_cpus=4, resources={"disk": 2})
    total = ray.cluster_resources()
    print(f"the machine as told: CPU {total['CPU']}, disk {total['disk']}")
    print(f"assigned: {ray.get([uses_disk.remote() for _ in range(4)])}")

    group = placement_group([{"CPU": 1}, {"CPU": 1, "disk": 1}], strategy="PACK")
    ray.get(group.ready())
    table = placement_group_table(group)
    print(f"group: {table['state']}, {table['strategy']}, bundles {group.bundle_count}")

    pinned = [
        Pinned.options(
            scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index)
        ).remote()
        for index in range(group.bundle_count)
    ]
    places = ray.get([actor.where.remote() for actor in pinned])
    nodes, pids = map(set, zip(*places, strict=True))
    print(f"actors in {len(pids)} processes on {len(nodes)} node")

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    print(f"on this node: {ray.get(node_here.options(scheduling_strategy=here).remote()) == places[0][0]}")

    remove_placement_group(group)
    while not is_gone(pinned[0]):
        time.sleep(0.05)
    print("the group's actors went with it")
    ray.shutdown()


if __name__ == "__main__":
    main()
