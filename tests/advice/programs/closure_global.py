"""A program with a planted fault: closure. Run by tests/advice/table.py."""

import sundog as ray

ray.init(num_cpus=4)


table = {n: str(n) for n in range(700_000)}


@ray.remote
def look_up(x):  # fault: closure
    return table[x]


print(ray.get([look_up.remote(x) for x in range(8)]))
