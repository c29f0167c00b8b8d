"""A table of features (a dict of dicts) for each batch of users."""

import time

import sundog as ray

ray.init(num_cpus=2)


@ray.remote
def score(features, users):
    time.sleep(0.02)
    return sum(features[u]["age"] * features[u]["clicks"] for u in users)


features = {f"user{i}": {"age": i % 80, "clicks": i % 7, "tags": [i, i + 1]} for i in range(60_000)}
names = list(features)
features_ref = ray.put(features)
futures = []
for start in range(0, 20_000, 1000):
    futures.append(score.remote(features_ref, names[start : start + 1000]))
print(sum(ray.get(futures)))
