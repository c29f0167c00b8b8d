"""The driver parses each record before it sends it."""

import json
import time

import sundog


@sundog.remote
def enrich(record):
    time.sleep(0.004)
    return record["id"]


def parse(line):
    for _ in range(240):
        record = json.loads(line)
    return record


def main():
    sundog.init(num_cpus=4)
    lines = [json.dumps({"id": n, "tags": [str(k) for k in range(400)]}) for n in range(200)]
    refs = []
    for line in lines:
        record = parse(line)  # fault: driver-bound
        refs.append(enrich.remote(record))
    print(sum(sundog.get(refs)))


main()
