"""A merge sort by tasks that start tasks: halves are sorted by children."""

import random
from heapq import merge

import sundog


@sundog.remote
def sort(values):
    if len(values) <= 400:
        return sorted(values)
    half = len(values) // 2
    left, right = sort.remote(values[:half]), sort.remote(values[half:])
    return list(merge(*sundog.get([left, right])))


sundog.init()
data = [random.random() for _ in range(3000)]
assert sundog.get(sort.remote(data)) == sorted(data)
print("sorted")
