"""Sessions are kept by actors; a few heavy users share one of them."""

import time
from dataclasses import dataclass, field

import sundog as ray


@ray.remote
@dataclass
class Sessions:
    seen: dict = field(default_factory=dict)

    def visit(self, user, cost):
        time.sleep(cost)
        self.seen[user] = self.seen.get(user, 0) + 1
        return user


def visits():
    for n in range(48):
        user = n % 12
        yield user, (0.09 if user % 3 == 0 else 0.015)


ray.init(num_cpus=3)
keepers = [Sessions.remote() for _ in range(3)]
refs = [keepers[user % 3].visit.remote(user, cost) for user, cost in visits()]  # fault: unbalanced-actors
done = 0
while refs:
    ready, refs = ray.wait(refs, num_returns=min(8, len(refs)), timeout=10)
    done += len(ready)
    print(f"{done} visits", end="\r")
print(done)
