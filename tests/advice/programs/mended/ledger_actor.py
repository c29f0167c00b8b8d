"""Validators write to one ledger, which checks each entry itself."""

import time

import sundog as ray


@ray.remote
class Ledger:
    """Keeps what was accepted."""

    def __init__(self, limit):
        self.limit, self.accepted = limit, []

    def submit(self, entry):
        time.sleep(0.07)
        if entry["amount"] < self.limit:
            self.accepted.append(entry)
            return True
        return False


def entries(count):
    return [{"id": n, "amount": (n * 37) % 100} for n in range(count)]


if __name__ == "__main__":
    ray.init(num_cpus=4)
    ledgers = [Ledger.remote(limit=80) for _ in range(4)]
    answers = ray.get([ledgers[entry["id"] % 4].submit.remote(entry) for entry in entries(36)])
    print(f"{sum(answers)} of {len(answers)} accepted")
