"""An actor asks all members of an ensemble and waits for them, so its next call waits too."""

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
        votes = [member.remote(number, row) for number in range(self.members)]
        return sum(ray.get(votes))  # fault: nested-get


ray.init(num_cpus=8)
ensemble = Ensemble.remote(3)
print(sum(ray.get([ensemble.predict.remote(row) for row in range(16)])))
