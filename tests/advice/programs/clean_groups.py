"""Two pairs of workers in placement groups, each fed with its half of the work."""

import time

import sundog
from sundog.util.placement_group import placement_group, remove_placement_group
from sundog.util.scheduling_strategies import PlacementGroupSchedulingStrategy


@sundog.remote(num_cpus=1)
def train(part):
    time.sleep(0.1)
    return part


sundog.init(num_cpus=4)
groups = [placement_group([{"CPU": 1}, {"CPU": 1}], strategy="PACK") for _ in range(2)]
sundog.get([group.ready() for group in groups])
refs = []
for number in range(16):
    where = PlacementGroupSchedulingStrategy(groups[number % 2])
    refs.append(train.options(scheduling_strategy=where).remote(number))
print(sum(sundog.get(refs)))
for group in groups:
    remove_placement_group(group)
