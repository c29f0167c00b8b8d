"""The program submits again what failed: the check comes after the long part."""

import time

import sundog as ray


class Rejected(Exception):
    pass


@ray.remote(max_retries=0)
def convert(item, attempt):
    time.sleep(0.3)
    if item % 2 == 0 and attempt < 3:
        raise Rejected(item)
    return item


def main():
    ray.init(num_cpus=4)
    todo, done, attempt = list(range(12)), [], 0
    while todo:
        attempt += 1
        refs = {item: convert.remote(item, attempt) for item in todo}  # fault: retries
        todo = []
        for item, ref in refs.items():
            try:
                done.append(ray.get(ref))
            except ray.exceptions.RayTaskError as error:
                print(f"{item}: again after {type(error).__name__}")
                todo.append(item)
    print(len(done), "after", attempt)


if __name__ == "__main__":
    main()
