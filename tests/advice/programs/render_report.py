"""Metrics of many models, each drawn by the driver when it is there."""

import time

import sundog as ray

SECONDS = {
    "resnet": 1.0,
    "vgg": 0.2,
    "vit": 0.3,
    "bert": 0.25,
    "gpt": 0.4,
    "mlp": 0.15,
    "lstm": 0.35,
    "gru": 0.2,
}


@ray.remote
def benchmark(model, repeat=3):
    time.sleep(SECONDS[model])
    return {"model": model, "latency": SECONDS[model] / repeat}


def draw(metrics):
    until = time.perf_counter() + 0.12
    while time.perf_counter() < until:
        time.sleep(0.01)
    return f"<svg>{metrics['model']}</svg>"


def main():
    ray.init(num_cpus=8)
    refs = {model: benchmark.remote(model) for model in SECONDS}
    pages = {}
    for model, ref in refs.items():
        metrics = ray.get(ref, timeout=60)  # fault: get-in-order
        pages[model] = draw(metrics)
        print(f"{model:>8}: {metrics['latency']:.3f} s")
    print(len(pages), "pages")


main()
