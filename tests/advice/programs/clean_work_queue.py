"""Workers take jobs from a queue and write to another, which the program reads."""

import time

import sundog as ray
from sundog.util.queue import Queue


@ray.remote
def worker(jobs, results):
    done = 0
    while True:
        job = jobs.get()
        if job is None:
            return done
        time.sleep(0.05)
        results.put(job * job)
        done += 1


if __name__ == "__main__":
    ray.init(num_cpus=4)
    jobs, results = Queue(), Queue()
    workers = [worker.remote(jobs, results) for _ in range(3)]
    for number in range(45):
        jobs.put(number)
    total = 0
    for _ in range(45):
        total += results.get()
    for _ in workers:
        jobs.put(None)
    print(total, sum(ray.get(workers)))
