"""A population that is bred from the best of the one before."""

import random
import time
from dataclasses import dataclass, replace

import sundog as ray


@dataclass(frozen=True)
class Genome:
    x: float
    fitness: float = 0.0


@ray.remote
def rate(genome):
    time.sleep(0.1)
    return replace(genome, fitness=-((genome.x - 2) ** 2))


def breed(parents, draw, size):
    return [Genome(draw.choice(parents).x + draw.gauss(0, 0.3)) for _ in range(size)]


if __name__ == "__main__":
    ray.init(num_cpus=4)
    draw = random.Random(0)
    population = [Genome(draw.uniform(-5, 5)) for _ in range(8)]
    for generation in range(8):
        rated = sorted(ray.get([rate.remote(g) for g in population]), key=lambda g: -g.fitness)
        print(f"{generation}: {rated[0].fitness:.4f}")
        if rated[0].fitness > -1e-6:
            break
        population = breed(rated[:3], draw, 8)
