"""Weather cells are simulated; those over the sea take far longer, and are listed at the end."""

import time

import sundog as ray

KINDS = {"plain": 0.12, "hills": 0.16, "sea": 0.95}


@ray.remote
def simulate(cell, kind):
    time.sleep(KINDS[kind])
    return cell, kind


def cells():
    yield from ((n, "plain") for n in range(16))
    yield from ((16 + n, "hills") for n in range(8))
    yield from ((24 + n, "sea") for n in range(2))


if __name__ == "__main__":
    ray.init(num_cpus=4)
    work = sorted(cells(), key=lambda each: -KINDS[each[1]])
    futures = [simulate.remote(*each) for each in work]
    by_kind = {}
    for cell, kind in ray.get(futures):
        by_kind.setdefault(kind, []).append(cell)
    print({kind: len(found) for kind, found in by_kind.items()})
