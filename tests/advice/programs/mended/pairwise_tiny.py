"""All pairs of a set of points."""

import math

import sundog as ray

ray.init()


@ray.remote
def distances(rows, points):
    return [[math.dist(a, b) for b in points] for a in rows]


points = [(math.sin(i), math.cos(2 * i), i / 100) for i in range(170)]
table = []
for i in range(0, len(points), 10):
    table.append(distances.remote(points[i : i + 10], points))
print(max(max(map(max, part)) for part in ray.get(table)))
