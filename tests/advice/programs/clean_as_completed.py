"""Results are taken when they are ready, with a timeout and a bar of progress."""

import time

import sundog as ray


@ray.remote
def fetch(url):
    time.sleep(0.1 + (hash(url) % 5) / 20)
    return len(url)


def as_completed(refs, timeout=5.0):
    pending = set(refs)
    while pending:
        done, rest = ray.wait(list(pending), num_returns=1, timeout=timeout)
        pending = set(rest)
        yield from done


if __name__ == "__main__":
    ray.init(num_cpus=4)
    urls = {fetch.remote(f"https://example.org/{n}"): n for n in range(24)}
    bar = []
    for ref in as_completed(urls):
        bar.append(f"{urls[ref]}:{ray.get(ref)}")
        print("#" * len(bar), end="\r")
    print(len(bar))
