"""A flaky service: the task does all of its work, then fails and is tried again."""

import time

import sundog as ray


class Unavailable(Exception):
    pass


@ray.remote(max_retries=5, retry_exceptions=[Unavailable])
def enrich(number, path):
    time.sleep(0.1)
    with open(path, "a") as log:
        log.write(f"{number}\n")
    with open(path) as log:
        seen = sum(line.strip() == str(number) for line in log)
    if number % 3 == 0 and seen < 4:
        raise Unavailable(number)
    return number


if __name__ == "__main__":
    import tempfile

    ray.init(num_cpus=4)
    path = tempfile.mktemp()
    refs = [enrich.remote(i, path) for i in range(36)]  # fault: retries
    print(sum(ray.get(refs)))
