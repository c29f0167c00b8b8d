"""One request of many fails once and is made again at once."""

import os
import tempfile
import time

import sundog as ray


@ray.remote(max_retries=2, retry_exceptions=True)
def request(number, folder):
    time.sleep(0.05)
    mark = os.path.join(folder, "seen")
    if number == 5 and not os.path.exists(mark):
        open(mark, "w").close()
        raise ConnectionError("reset")
    return number


if __name__ == "__main__":
    ray.init(num_cpus=4)
    with tempfile.TemporaryDirectory() as folder:
        print(sum(ray.get([request.remote(number, folder) for number in range(60)])))
