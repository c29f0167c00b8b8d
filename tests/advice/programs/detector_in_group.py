"""A detector is placed beside its camera; all frames of all cameras go through it."""

import time
from collections import defaultdict

import sundog as ray
from sundog.util.placement_group import placement_group, remove_placement_group
from sundog.util.scheduling_strategies import PlacementGroupSchedulingStrategy


@ray.remote(num_cpus=1)
class Detector:
    def __init__(self, model):
        time.sleep(0.05)
        self.model = model

    def detect(self, camera, frame):
        time.sleep(0.03)
        return camera, frame % 3 == 0


def main():
    ray.init(num_cpus=4)
    group = placement_group([{"CPU": 1}], strategy="PACK")
    ray.get(group.ready())
    place = PlacementGroupSchedulingStrategy(placement_group=group)
    detector = Detector.options(scheduling_strategy=place).remote("yolo")  # fault: one-actor
    refs = [detector.detect.remote(camera, frame) for frame in range(16) for camera in range(3)]
    seen = defaultdict(int)
    for camera, is_person in ray.get(refs):
        seen[camera] += is_person
    remove_placement_group(group)
    print(dict(seen))


if __name__ == "__main__":
    main()
