"""Records are scored as an iterator gives them, each before the next one is read."""

import time

import sundog as ray


@ray.remote(num_cpus=1, num_returns=2)
def score(record):
    time.sleep(0.18)
    return record["id"], record["value"] * 0.5


class Bar:
    def __init__(self, total):
        self.total, self.done = total, 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        print()

    def update(self, value):
        self.done += 1
        print(f"{self.done}/{self.total} {value:.1f}", end="\r")


def records(count):
    for n in range(count):
        yield {"id": n, "value": float(n)}


def main(count=15):
    ray.init(num_cpus=5)
    stream = records(count)
    scores = {}
    with Bar(count) as bar:
        while True:
            record = next(stream, None)
            if record is None:
                break
            key, value = ray.get(list(score.remote(record)))  # fault: get-in-loop
            scores[key] = value
            bar.update(value)
    print(sum(scores.values()))


if __name__ == "__main__":
    main()
