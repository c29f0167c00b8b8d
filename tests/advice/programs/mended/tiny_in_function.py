"""The mended twin of tiny_in_function.py."""

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def parse(lines):
    return sum(len(line.split()) for line in lines)


def count(lines):
    waiting = []
    for i in range(0, len(lines), 1000):
        waiting.append(parse.remote(lines[i : i + 1000]))
    return sum(ray.get(waiting))


print(count(["a b c"] * 30_000))
