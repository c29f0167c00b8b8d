"""The mended twin of closure_global.py."""

import sundog as ray

ray.init(num_cpus=4)


table = ray.put({n: str(n) for n in range(700_000)})


@ray.remote
def look_up(table, xs):
    return [table[x] for x in xs]


print(ray.get(look_up.remote(table, list(range(8)))))
