"""A pool of predictors; the model goes along with each batch."""

import numpy as np

import sundog as ray
from sundog.util import ActorPool


@ray.remote
class Predictor:
    def predict(self, model, batch):
        return float((batch @ model["w"][:64]).sum() + model["b"][0])


def main():
    ray.init(num_cpus=2)
    rng = np.random.default_rng(0)
    model = {"w": rng.normal(size=(2_000_000,)), "b": rng.normal(size=(1,))}
    batches = [rng.normal(size=(32, 64)) for _ in range(60)]
    pool = ActorPool([Predictor.remote() for _ in range(2)])
    sums = pool.map(lambda actor, batch: actor.predict.remote(model, batch), batches)  # fault: large-argument
    total = sum(sums)
    print(f"{total:.2f}")


if __name__ == "__main__":
    main()
