"""A query fails at its end two times of three, and is made again from its beginning."""

import tempfile
import time
from pathlib import Path

import sundog as ray


@ray.remote(max_retries=4, retry_exceptions=True)
def query(folder, number):
    time.sleep(0.12)
    tried = Path(folder) / str(number)
    count = int(tried.read_text()) if tried.exists() else 0
    tried.write_text(str(count + 1))
    if number % 2 == 0 and count < 2:
        raise ConnectionError("the database is busy")
    return number


def main():
    ray.init(num_cpus=3)
    with tempfile.TemporaryDirectory() as folder:
        refs = [query.remote(folder, number) for number in range(18)]  # fault: retries
        print(sum(ray.get(refs)))


if __name__ == "__main__":
    main()
