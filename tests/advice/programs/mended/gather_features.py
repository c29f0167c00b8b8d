"""Features are joined in the driver at the end, file after file."""

import time

import sundog


@sundog.remote
def features(file):
    time.sleep(0.05)
    return {f"{file}-{n}": n for n in range(2000)}


@sundog.remote
def join(tables):
    out = {}
    for _ in range(160):
        for table in tables:
            for key, value in table.items():
                out[key] = out.get(key, 0) + value
    return out


def main():
    sundog.init(num_cpus=4)
    tables = sundog.get([features.remote(f"f{n}") for n in range(8)])
    print(sum(map(len, sundog.get([join.remote(tables[n::4]) for n in range(4)]))))


main()
