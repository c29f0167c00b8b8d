"""A program with a planted fault: tasks-too-small. Run by tests/advice/table.py."""

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def square(x):
    return x * x


refs = [square.remote(x) for x in range(30_000)]  # fault: tasks-too-small
print(sum(ray.get(refs)))
