"""Simulations of very different length; each result is rendered."""

import time

import sundog as ray


@ray.remote
def simulate(steps):
    time.sleep(steps / 100)
    return [steps] * 10


def render(name, data):
    deadline = time.perf_counter() + 0.06
    while time.perf_counter() < deadline:
        sum(data)


def main():
    ray.init(num_cpus=4)
    plan = {
        "alpha": 140,
        "beta": 15,
        "gamma": 20,
        "delta": 12,
        "eps": 90,
        "zeta": 10,
        "eta": 25,
        "theta": 30,
        "iota": 18,
        "kappa": 22,
        "lambda": 35,
        "mu": 10,
    }
    refs = [simulate.remote(n) for n in plan.values()]
    names = dict(zip(refs, plan))
    while refs:
        [ref], refs = ray.wait(refs)
        render(names[ref], ray.get(ref))


if __name__ == "__main__":
    main()
