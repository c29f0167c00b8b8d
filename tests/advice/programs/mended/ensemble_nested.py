"""An actor sends the members of an ensemble out, and gives back their refs."""

import time

import sundog as ray


@ray.remote(num_cpus=0.5)
def member(number, row):
    time.sleep(0.06)
    return number * row


@ray.remote
class Ensemble:
    def __init__(self, members):
        self.members = members

    def predict(self, row):
        return [member.remote(number, row) for number in range(self.members)]


ray.init(num_cpus=8)
ensemble = Ensemble.remote(3)
votes = ray.get([ensemble.predict.remote(row) for row in range(16)])
print(sum(sum(ray.get(each)) for each in votes))
