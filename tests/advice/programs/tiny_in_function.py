"""A program with a planted fault: tasks-too-small. Run by tests/advice/table.py."""

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def parse(line):
    return len(line.split())


def count(lines):
    waiting = []
    for line in lines:
        waiting.append(parse.remote(line))  # fault: tasks-too-small
    return sum(ray.get(waiting))


print(count(["a b c"] * 30_000))
