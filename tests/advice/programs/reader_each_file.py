"""A reader is made for each file, used once, and dropped."""

import sundog as ray


@ray.remote
class Reader:
    def __init__(self, schema):
        self.columns = {name: sum(ord(c) ** n for c in name for n in range(300)) for name in schema}

    def read(self, file):
        return len(self.columns) * file


if __name__ == "__main__":
    ray.init()
    schema = [f"column_number_{n}" for n in range(40)]
    total = 0
    for file in range(12):
        reader = Reader.remote(schema)  # fault: actor-per-item
        total += ray.get(reader.read.remote(file))
        del reader
    print(total)
