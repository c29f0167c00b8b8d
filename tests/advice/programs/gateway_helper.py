"""A gateway actor answers requests; a plain function that it calls waits for the model's answer."""

import time

import sundog as ray


@ray.remote
def infer(tokens):
    time.sleep(0.06)
    return sum(tokens)


def complete(tokens):
    return ray.get(infer.remote(tokens))  # fault: nested-get


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
    print(max(ray.get(list(answers.values()))))


if __name__ == "__main__":
    main()
