"""A service allows ten calls a second: the program sends each call when it may, and not sooner."""

import time

import sundog as ray


@ray.remote
def call(order):
    time.sleep(0.03)
    return {"order": order, "ok": order % 7 != 0}


class Limiter:
    def __init__(self, interval_s):
        self.interval_s, self.allowed = interval_s, time.monotonic()

    def pace(self):
        left = self.allowed - time.monotonic()
        if left > 0:
            time.sleep(left)
        self.allowed = max(self.allowed, time.monotonic()) + self.interval_s


if __name__ == "__main__":
    ray.init(num_cpus=4)
    limiter, refused = Limiter(0.1), []
    for order in range(16):
        limiter.pace()
        answer = ray.get(call.remote(order))
        if not answer["ok"]:
            refused.append(answer["order"])
    print(refused)
