"""Results are taken in order, but the driver does nothing with them that takes time."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def transform(n):
    time.sleep(0.3 if n % 5 == 0 else 0.15)
    return n * n


refs = {n: transform.remote(n) for n in range(24)}
table = {}
for n, ref in refs.items():
    try:
        table[n] = ray.get(ref)
    except ray.exceptions.RayTaskError as error:
        table[n] = error
    print(f"{n}: {table[n]}")
