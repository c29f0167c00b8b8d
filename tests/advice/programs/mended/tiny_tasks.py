"""The mended twin of tiny_tasks.py."""

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def squares(xs):
    return [x * x for x in xs]


items = list(range(30_000))
refs = [squares.remote(items[i : i + 1000]) for i in range(0, len(items), 1000)]
print(sum(sum(part) for part in ray.get(refs)))
