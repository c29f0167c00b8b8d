"""Long tasks, and a driver that says every half second that it is alive."""

import time

import sundog as ray


@ray.remote
def simulate(n):
    time.sleep(0.35)
    return n


def main():
    ray.init(num_cpus=4)
    pending = [simulate.remote(n) for n in range(16)]
    results = []
    started = time.monotonic()
    while pending:
        done, pending = ray.wait(pending, num_returns=len(pending), timeout=0.5)
        results.extend(ray.get(done))
        print(f"{time.monotonic() - started:.1f} s: {len(results)} done, {len(pending)} left")
    print(sum(results))


if __name__ == "__main__":
    main()
