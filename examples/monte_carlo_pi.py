"""Estimate pi by throwing points at a square, with an actor that follows the progress."""

import random

import ray

TASKS = 8
POINTS_PER_TASK = 50_000
REPORTS_PER_TASK = 5


@ray.remote
class Progress:
    """Hears from every sampler how far it has come."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done_by_task: dict[int, int] = {}

    def report(self, task: int, done: int) -> None:
        self.done_by_task[task] = done

    def fraction(self) -> float:
        return sum(self.done_by_task.values()) / self.total


@ray.remote
def throw(task: int, points: int, progress: "ray.actor.ActorHandle") -> int:
    rng = random.Random(task)
    chunk = points // REPORTS_PER_TASK
    inside = 0
    for part in range(REPORTS_PER_TASK):
        for _ in range(chunk):
            x, y = rng.random(), rng.random()
            inside += x * x + y * y <= 1.0
        progress.report.remote(task, (part + 1) * chunk)
    # Calls of one caller run in order, so once this answer is here, so are all the reports before it.
    ray.get(progress.fraction.remote())
    return inside


def main() -> None:
    ray.init()
    progress = Progress.remote(TASKS * POINTS_PER_TASK)
    counts = [throw.remote(task, POINTS_PER_TASK, progress) for task in range(TASKS)]

    inside = ray.get(counts)
    print(f"points inside, per task: {inside}")
    print(f"progress: {ray.get(progress.fraction.remote()):.0%}")
    print(f"pi is about {4 * sum(inside) / (TASKS * POINTS_PER_TASK):.4f}")
    ray.shutdown()


if __name__ == "__main__":
    main()
