"""All pairs of a set of points."""

import math

import sundog as ray

ray.init()


@ray.remote
def distance(a, b):
    return math.dist(a, b)


points = [(math.sin(i), math.cos(2 * i), i / 100) for i in range(170)]
table = []
for i in range(len(points)):
    row = []
    for j in range(len(points)):
        row.append(distance.remote(points[i], points[j]))  # fault: tasks-too-small
    table.append(row)
print(max(max(ray.get(row)) for row in table))
