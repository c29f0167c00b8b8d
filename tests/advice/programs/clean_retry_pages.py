"""Pages are read by a cursor, each with up to three tries: the next cursor is known only when a page is there."""

import time

import sundog as ray


@ray.remote
def read(cursor, attempt):
    time.sleep(0.04)
    if cursor % 5 == 4 and attempt == 0:
        raise ConnectionError("reset")
    return list(range(10)), cursor + 1 if cursor < 22 else None


def page(cursor):
    for attempt in range(3):
        try:
            return ray.get(read.remote(cursor, attempt))
        except ray.exceptions.RayTaskError:
            continue
    raise RuntimeError(f"no page at {cursor}")


def pages():
    cursor = 0
    while cursor is not None:
        rows, cursor = page(cursor)
        yield rows


if __name__ == "__main__":
    ray.init(num_cpus=4)
    print(sum(len(rows) for rows in pages()))
