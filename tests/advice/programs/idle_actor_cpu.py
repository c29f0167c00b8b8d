"""A monitor keeps a whole CPU for itself, and is asked once in a while."""

import time

import sundog as ray


@ray.remote(num_cpus=1)  # fault: cpus-unused
class Monitor:
    def __init__(self):
        self.seen = []

    def note(self, what):
        self.seen.append(what)

    def count(self):
        return len(self.seen)


@ray.remote
def fetch(part, monitor):
    time.sleep(0.1)
    monitor.note.remote(part)
    return part * part


ray.init(num_cpus=2)
monitor = Monitor.remote()
total = sum(ray.get([fetch.remote(part, monitor) for part in range(14)]))
print(total, ray.get(monitor.count.remote()))
