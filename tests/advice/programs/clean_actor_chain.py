"""Three actors in a row, each with another job: what the first gives goes on to the second by its ref."""

import time

import sundog as ray


@ray.remote
class Reader:
    def read(self, n):
        time.sleep(0.03)
        return [n] * 100


@ray.remote
class Cleaner:
    def clean(self, rows):
        time.sleep(0.03)
        return [row + 1 for row in rows]


@ray.remote
class Writer:
    def __init__(self):
        self.written = 0

    def write(self, rows):
        time.sleep(0.03)
        self.written += len(rows)
        return self.written


if __name__ == "__main__":
    ray.init(num_cpus=3)
    reader, cleaner, writer = Reader.remote(), Cleaner.remote(), Writer.remote()
    last = None
    for n in range(30):
        last = writer.write.remote(cleaner.clean.remote(reader.read.remote(n)))
    print(ray.get(last))
