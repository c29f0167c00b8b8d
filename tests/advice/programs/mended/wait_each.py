"""The twin of wait_each: all shards are asked, and one deadline is for all."""

import time

import sundog as ray


@ray.remote
def query(shard, text):
    time.sleep(0.05)
    return [(shard, len(text) + n) for n in range(3)]


def search(text, shards, deadline_s=5.0):
    refs = [query.remote(shard, text) for shard in range(shards)]
    ready, late = ray.wait(refs, num_returns=len(refs), timeout=deadline_s)
    for ref in late:
        ray.cancel(ref)
    hits = [hit for found in ray.get(ready) for hit in found]
    return sorted(hits, key=lambda hit: hit[1])


if __name__ == "__main__":
    ray.init(num_cpus=6)
    print(len(search("solar panels", 30)))
