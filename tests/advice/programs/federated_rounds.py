"""Federated averaging: in each round the program asks one client after the other; the next round needs all of them."""

import time

import sundog as ray

CLIENTS = [11, 12, 13]


@ray.remote
def train(client, weights):
    time.sleep(0.05)
    return [weight + (client - weight) * 0.5 for weight in weights]


class Server:
    def __init__(self, size):
        self.weights = [0.0] * size
        self.rounds = 0

    def aggregate(self, updates):
        self.weights = [sum(each) / len(each) for each in zip(*updates)]
        self.rounds += 1

    def run(self, rounds):
        while self.rounds < rounds:
            updates = []
            for client in CLIENTS:
                updates.append(ray.get(train.remote(client, self.weights)))  # fault: get-in-loop
            self.aggregate(updates)


if __name__ == "__main__":
    ray.init(num_cpus=8)
    server = Server(50)
    server.run(10)
    print(round(server.weights[0], 3))
