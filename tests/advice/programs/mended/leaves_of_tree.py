"""A feature store actor fetches from its own tasks; many ask it."""

import time

import sundog as ray


@ray.remote
def query(table, key):
    time.sleep(0.12)
    return hash((table, key)) % 100


@ray.remote
class Features:
    async def get(self, key):
        parts = [query.remote(table, key) for table in ("users", "orders")]
        users, orders = [await part for part in parts]
        return users + orders


if __name__ == "__main__":
    ray.init(num_cpus=7)
    features = Features.remote()
    print(sum(ray.get([features.get.remote(key) for key in range(20)])))
