"""The twin of pipeline_object: mended."""

import time

import sundog as ray

SIZES = [8, 1, 1, 1, 1, 1, 1, 1]


@ray.remote
def read(size):
    time.sleep(0.06 * size)
    return [size] * 1000


@ray.remote
def clean(rows):
    time.sleep(0.12)
    return [row + 1 for row in rows]


class Pipeline:
    def __init__(self, sizes):
        self.sizes = sizes
        self.tables = []

    def load(self):
        self.tables = [read.remote(size) for size in self.sizes]

    def clean(self):
        return [clean.remote(table) for table in self.tables]

    def run(self):
        self.load()
        return sum(len(rows) for rows in ray.get(self.clean()))


if __name__ == "__main__":
    ray.init(num_cpus=4)
    print(Pipeline(SIZES).run())
