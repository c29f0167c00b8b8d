"""Requests to hosts, of which the slow one comes last."""

import time

import sundog as ray

ray.init(num_cpus=4)

HOSTS = {f"host{i}": 0.1 + 0.01 * (i % 4) for i in range(22)} | {"archive": 1.1}


@ray.remote
def crawl(host, seconds):
    time.sleep(seconds)
    return host


def submit_all(hosts):
    return [crawl.remote(h, s) for h, s in hosts.items()]


print(len(ray.get(submit_all(dict(sorted(HOSTS.items(), key=lambda each: -each[1]))))))
