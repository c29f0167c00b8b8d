"""Train a logistic regression with a parameter server.

One actor keeps the weights; the workers each keep a shard of the data and send gradients. The first half
trains in lock step (every worker answers, then one update); the second half applies each gradient as it
comes, which is how a slow worker stops holding up the others.
"""

import numpy as np
import ray

FEATURES = 12
SHARD_ROWS = 600
WORKERS = 3


def sigmoid(z: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-z))


def make_shard(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose label is decided by one fixed plane, with a little noise."""
    plane = np.linspace(-1.0, 1.0, FEATURES)
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(SHARD_ROWS, FEATURES))
    labels = (rows @ plane + 0.1 * rng.normal(size=SHARD_ROWS) > 0).astype(np.float64)
    return rows, labels


@ray.remote
class ParameterServer:
    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.weights = np.zeros(FEATURES)
        self.updates = 0

    def apply(self, *gradients: np.ndarray) -> np.ndarray:
        self.weights = self.weights - self.rate * np.mean(gradients, axis=0)
        self.updates += 1
        return self.weights

    def get_weights(self) -> np.ndarray:
        return self.weights

    def count_updates(self) -> int:
        return self.updates


@ray.remote
class Worker:
    def __init__(self, seed: int) -> None:
        self.rows, self.labels = make_shard(seed)

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        miss = sigmoid(self.rows @ weights) - self.labels
        return self.rows.T @ miss / len(self.labels)


def accuracy(weights: np.ndarray) -> float:
    rows, labels = make_shard(seed=999)
    return float(np.mean((rows @ weights > 0) == (labels > 0.5)))


def train_in_step(rounds: int) -> None:
    server = ParameterServer.remote(rate=2.0)
    workers = [Worker.remote(seed) for seed in range(WORKERS)]
    weights = server.get_weights.remote()
    for step in range(rounds):
        # Nothing is fetched here: weights and gradients travel from actor to actor as references.
        weights = server.apply.remote(*[worker.gradient.remote(weights) for worker in workers])
        if (step + 1) % 10 == 0:
            print(f"in step, round {step + 1}: accuracy {accuracy(ray.get(weights)):.3f}")


def train_as_they_come(updates: int) -> None:
    server = ParameterServer.remote(rate=0.7)
    workers = [Worker.remote(seed) for seed in range(WORKERS)]
    weights = server.get_weights.remote()
    pending = {worker.gradient.remote(weights): worker for worker in workers}
    for _ in range(updates):
        [done], _ = ray.wait(list(pending))
        worker = pending.pop(done)
        weights = server.apply.remote(done)
        pending[worker.gradient.remote(weights)] = worker
    reached = accuracy(ray.get(server.get_weights.remote()))
    print(f"as they come: {ray.get(server.count_updates.remote())} updates, above 0.95: {reached > 0.95}")


if __name__ == "__main__":
    ray.init()
    train_in_step(rounds=30)
    train_as_they_come(updates=90)
    ray.shutdown()
