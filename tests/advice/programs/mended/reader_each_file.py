"""Two readers, made once, read all files."""

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
    readers = [Reader.remote(schema) for _ in range(2)]
    print(sum(ray.get([readers[file % 2].read.remote(file) for file in range(12)])))
