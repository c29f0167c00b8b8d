"""Each query has a deadline: the program waits for one, with a time limit, before it sends the next."""

import time

import sundog as ray


@ray.remote
def query(shard, text):
    time.sleep(0.05)
    return [(shard, len(text) + n) for n in range(3)]


def ask(shard, text, deadline_s=5.0):
    ref = query.remote(shard, text)
    ready, _ = ray.wait([ref], timeout=deadline_s)  # fault: get-in-loop
    if not ready:
        ray.cancel(ref)
        raise TimeoutError(f"shard {shard}")
    return ray.get(ready[0])  # fault: get-in-loop


def search(text, shards):
    hits = []
    for shard in range(shards):
        try:
            hits.extend(ask(shard, text))
        except TimeoutError as error:
            print(error)
    return sorted(hits, key=lambda hit: hit[1])


if __name__ == "__main__":
    ray.init(num_cpus=6)
    print(len(search("solar panels", 30)))
