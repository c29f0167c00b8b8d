"""The twin of pool_one_at_a_time: the pool is given all pages."""

import time

import sundog as ray
from sundog.util import ActorPool


@ray.remote
class Browser:
    def __init__(self, width):
        self.width = width

    def shot(self, page):
        time.sleep(0.05)
        return page, self.width * 10


def render(pages):
    pool = ActorPool([Browser.remote(800) for _ in range(4)])
    shots = {}
    for page in pages:
        pool.submit(lambda browser, each: browser.shot.remote(each), page)
    while pool.has_next():
        name, size = pool.get_next()
        shots[name] = size
    return shots


if __name__ == "__main__":
    ray.init(num_cpus=4)
    print(len(render([f"page-{n}" for n in range(32)])))
