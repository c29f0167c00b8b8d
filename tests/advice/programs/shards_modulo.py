"""Users are spread over four shard actors by their id; the ids of the busy ones are all multiples of four."""

import time

import sundog


@sundog.remote
class Shard:
    def __init__(self):
        self.rows = {}

    def update(self, user, events):
        time.sleep(0.002 * events)
        self.rows[user] = self.rows.get(user, 0) + events
        return events


sundog.init(num_cpus=4)
shards = [Shard.remote() for _ in range(4)]
stream = [(user, 15 if user % 4 == 0 else 1) for user in range(80)]
refs = [shards[user % 4].update.remote(user, events) for user, events in stream]  # fault: unbalanced-actors
print(sum(sundog.get(refs)))
