"""A query that fails no more."""

import tempfile
import time
from pathlib import Path

import sundog as ray


@ray.remote(max_retries=4, retry_exceptions=True)
def query(folder, number):
    time.sleep(0.12)
    tried = Path(folder) / str(number)
    tried.write_text("1")
    return number


def main():
    ray.init(num_cpus=3)
    with tempfile.TemporaryDirectory() as folder:
        refs = [query.remote(folder, number) for number in range(18)]
        print(sum(ray.get(refs)))


if __name__ == "__main__":
    main()
