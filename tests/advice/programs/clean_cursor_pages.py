"""Pages of a service: each page names the cursor of the next, so they come one after the other."""

import time

import sundog as ray


@ray.remote
def fetch(cursor):
    time.sleep(0.05)
    return {"rows": list(range(cursor, cursor + 20)), "next": cursor + 20 if cursor < 380 else None}


class Client:
    def __init__(self):
        self.cursor = 0
        self.rows = []

    def _page(self):
        return ray.get(fetch.remote(self.cursor))

    def advance(self):
        page = self._page()
        self.rows.extend(page["rows"])
        self.cursor = page["next"]

    def all(self):
        while self.cursor is not None:
            self.advance()
        return self.rows


if __name__ == "__main__":
    ray.init(num_cpus=4)
    print(len(Client().all()))
