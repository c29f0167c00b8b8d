"""The twin of gateway_helper: the gateway hands the ref on."""

import time

import sundog as ray


@ray.remote
def infer(tokens):
    time.sleep(0.06)
    return sum(tokens)


def complete(tokens):
    return infer.remote(tokens)


@ray.remote
class Gateway:
    def __init__(self):
        self.served = 0

    def handle(self, prompt):
        self.served += 1
        return complete([ord(letter) for letter in prompt])


def main():
    ray.init(num_cpus=6)
    gateway = Gateway.remote()
    answers = {prompt: gateway.handle.remote(prompt) for prompt in (f"question {n}" for n in range(24))}
    print(max(ray.get(ray.get(list(answers.values())))))


if __name__ == "__main__":
    main()
