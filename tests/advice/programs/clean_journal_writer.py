"""All tasks write to one journal, which numbers the entries: it has to be one actor."""

import time

import sundog as ray


@ray.remote
class Journal:
    def __init__(self, path):
        self.path, self.number = path, 0
        self.file = open(path, "w")

    def append(self, entry):
        self.number += 1
        self.file.write(f"{self.number} {entry}\n")
        self.file.flush()
        time.sleep(0.004)  # the disk
        return self.number

    def close(self):
        self.file.close()
        return self.number


@ray.remote
def settle(journal, order):
    time.sleep(0.07)
    return ray.get(journal.append.remote(f"order {order}"))


if __name__ == "__main__":
    ray.init(num_cpus=4)
    journal = Journal.remote("/dev/null")
    numbers = ray.get([settle.remote(journal, order) for order in range(60)])
    print(max(numbers), ray.get(journal.close.remote()))
