"""Search for good settings: many short trials, results handled as they finish.

First a random search read with as_completed; then successive halving, where an actor per trial keeps its
state, the worse half is killed after each round, and the others go on from where they are.
"""

import random

import numpy as np
import ray
from ray.util import as_completed

ROWS = 400
TRIALS = 16


def make_data(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, size=ROWS)
    return x, np.sin(3 * x) + 0.1 * rng.normal(size=ROWS)


def draw_settings(rng: random.Random) -> dict[str, float]:
    return {"degree": rng.randint(1, 9), "ridge": 10 ** rng.uniform(-6, 1)}


@ray.remote
def fit(trial: int, settings: dict[str, float], data: tuple[np.ndarray, np.ndarray]) -> tuple[float, int]:
    """Mean squared error of a polynomial on the half of the data that it has not seen."""
    x, y = data
    powers = np.vander(x, int(settings["degree"]) + 1)
    seen, held_out = slice(0, ROWS // 2), slice(ROWS // 2, ROWS)
    normal = powers[seen].T @ powers[seen] + settings["ridge"] * np.eye(powers.shape[1])
    weights = np.linalg.solve(normal, powers[seen].T @ y[seen])
    return float(np.mean((powers[held_out] @ weights - y[held_out]) ** 2)), trial


@ray.remote
class Trial:
    """Gradient descent that can be stopped and continued."""

    def __init__(self, rate: float, data: tuple[np.ndarray, np.ndarray]) -> None:
        x, self.y = data
        self.powers = np.vander(x, 6)
        self.rate = rate
        self.weights = np.zeros(6)

    def advance(self, steps: int) -> float:
        for _ in range(steps):
            miss = self.powers @ self.weights - self.y
            self.weights -= self.rate * self.powers.T @ miss / ROWS
        return float(np.mean((self.powers @ self.weights - self.y) ** 2))


def random_search(data: "ray.ObjectRef") -> None:
    rng = random.Random(11)
    candidates = [draw_settings(rng) for _ in range(TRIALS)]
    trials = [fit.remote(trial, settings, data) for trial, settings in enumerate(candidates)]
    finished = sorted(as_completed(trials))
    print(f"random search: {len(finished)} trials")
    for loss, trial in finished[:3]:
        settings = candidates[trial]
        print(f"  loss {loss:.4f}  degree {settings['degree']}  ridge {settings['ridge']:.1e}")


def successive_halving(data: "ray.ObjectRef") -> None:
    alive = {rate: Trial.remote(rate, data) for rate in (0.003, 0.01, 0.03, 0.1, 0.2, 0.4, 0.6, 0.8)}
    steps = 20
    while len(alive) > 1:
        pending = {trial.advance.remote(steps): rate for rate, trial in alive.items()}
        losses: dict[float, float] = {}
        while len(losses) < len(pending):
            waiting = [ref for ref, rate in pending.items() if rate not in losses]
            [done], _ = ray.wait(waiting, num_returns=1)
            losses[pending[done]] = ray.get(done)
        ranked = sorted(alive, key=lambda rate: losses[rate])
        for rate in ranked[len(ranked) // 2 :]:
            ray.kill(alive.pop(rate))
        print(f"halving, {steps} steps: kept rates {sorted(alive)}, best loss {losses[ranked[0]]:.4f}")
        steps *= 2


if __name__ == "__main__":
    ray.init()
    shared = ray.put(make_data(seed=5))
    random_search(shared)
    successive_halving(shared)
    ray.shutdown()
