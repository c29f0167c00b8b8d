"""The twin of csv_chunks: the tasks parse."""

import csv
import io
import random
from itertools import islice

import sundog as ray

ROWS = 640_000


def make_file(seed):
    draw = random.Random(seed)
    return "".join(f"{draw.random():.5f},{draw.randrange(50)},name{n % 97}\n" for n in range(ROWS))


def parse(lines):
    rows = []
    for price, shop, name in csv.reader(lines):
        rows.append((float(price), int(shop), name.strip().upper()))
    return rows


@ray.remote
def totals(lines):
    rows = parse(lines)
    found = {}
    for price, shop, _ in rows[:8000]:
        found[shop] = found.get(shop, 0.0) + price
    return found


def main(text):
    file = io.StringIO(text)
    pending = []
    while lines := list(islice(file, 40_000)):
        pending.append(totals.remote(lines))
    merged = {}
    for part in ray.get(pending):
        for shop, total in part.items():
            merged[shop] = merged.get(shop, 0.0) + total
    print(len(merged))


if __name__ == "__main__":
    made = make_file(0)
    ray.init()
    main(made)
