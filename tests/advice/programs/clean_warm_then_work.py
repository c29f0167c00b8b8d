"""Each replica is warmed up and checked once, one after the other; then the work is spread over them."""

import time

import sundog as ray


@ray.remote
class Replica:
    def __init__(self, number):
        self.number = number

    def check(self):
        time.sleep(0.004)
        return self.number

    def serve(self, request):
        time.sleep(0.03)
        return request * 2


def main():
    ray.init(num_cpus=4)
    replicas = [Replica.remote(number) for number in range(4)]
    for number, replica in enumerate(replicas):
        if ray.get(replica.check.remote()) != number:
            raise RuntimeError(f"replica {number} is not well")
    refs = [replicas[request % 4].serve.remote(request) for request in range(120)]
    print(sum(ray.get(refs)))


if __name__ == "__main__":
    main()
