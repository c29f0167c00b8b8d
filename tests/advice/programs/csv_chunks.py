"""A large file is read in chunks; the reader parses each of them in the program before it is sent out."""

import csv
import io
import random
from itertools import islice

import sundog as ray

ROWS = 640_000


def make_file(seed):
    draw = random.Random(seed)
    return "".join(f"{draw.random():.5f},{draw.randrange(50)},name{n % 97}\n" for n in range(ROWS))


def read_chunks(file, lines):
    reader = csv.reader(file)
    while True:
        rows = []
        for price, shop, name in islice(reader, lines):
            rows.append((float(price), int(shop), name.strip().upper()))  # fault: serial-part
        if not rows:
            return
        yield rows  # fault: serial-part


@ray.remote
def totals(rows):
    found = {}
    for price, shop, _ in rows[:8000]:
        found[shop] = found.get(shop, 0.0) + price
    return found


def main(text):
    pending = []
    for chunk in read_chunks(io.StringIO(text), 40_000):  # fault: serial-part
        pending.append(totals.remote(chunk))  # fault: serial-part
    merged = {}
    for part in ray.get(pending):
        for shop, total in part.items():
            merged[shop] = merged.get(shop, 0.0) + total
    print(len(merged))


if __name__ == "__main__":
    made = make_file(0)
    ray.init()
    main(made)
