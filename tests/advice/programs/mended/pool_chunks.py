"""Pool.map over many small items, one at a time."""

import sundog
from sundog.util.multiprocessing import Pool


def clean(line):
    return line.strip().lower().replace("-", "")


if __name__ == "__main__":
    sundog.init(num_cpus=2)
    lines = [f"  Part-{n}  " for n in range(60_000)]
    with Pool(2) as pool:
        print(len(pool.map(clean, lines, chunksize=500)))
