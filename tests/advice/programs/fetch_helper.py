"""Read many remote objects through a small helper."""

import time

import sundog as ray

ray.init(num_cpus=8)


@ray.remote
def download(key):
    time.sleep(0.12)  # the network
    return {"key": key, "rows": list(range(1000))}


def load(key):
    return ray.get(download.remote(key))  # fault: get-in-loop


def main():
    tables = {key: load(key) for key in (f"part-{i:03}" for i in range(24))}
    total = 0
    for _key, table in tables.items():
        total += sum(table["rows"])
    print(total)


main()
