"""Bad files are skipped: what fails is counted, and not tried again."""

import time

import sundog as ray


@ray.remote(max_retries=0)
def parse(file):
    time.sleep(0.15)
    if file % 4 == 0:
        raise ValueError(f"{file} is empty")
    return file


if __name__ == "__main__":
    ray.init(num_cpus=4)
    files, good, bad = list(range(32)), [], []
    running = {}
    while files or running:
        while files and len(running) < 8:
            file = files.pop()
            running[parse.remote(file)] = file
        ready, _ = ray.wait(list(running), num_returns=1)
        for ref in ready:
            file = running.pop(ref)
            try:
                good.append(ray.get(ref))
            except ValueError:
                bad.append(file)
    print(f"{len(good)} good, {len(bad)} bad")
