"""When it happens: the placement group of a task was removed before the task had finished.

What to do: remove a group after the results of its tasks are ready.
"""

from __future__ import annotations

from sundog.exceptions import TaskPlacementGroupRemoved

RAISES = TaskPlacementGroupRemoved


def happen() -> None:
    import sundog as ray
    from sundog.util.placement_group import placement_group, remove_placement_group
    from sundog.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    ray.init(num_cpus=1)
    group = placement_group([{"CPU": 1}])
    ray.get(group.ready())
    remove_placement_group(group)

    @ray.remote(scheduling_strategy=PlacementGroupSchedulingStrategy(group))
    def work() -> None:
        pass

    ray.get(work.remote())
