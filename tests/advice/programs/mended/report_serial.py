"""The parts are counted and formatted in tasks."""

import sundog as ray


@ray.remote
def count(part):
    found = {}
    for n in range(part * 30_000, (part + 1) * 30_000):
        key = (n * 2654435761) % 50_021
        found[key] = found.get(key, 0) + 1
    return found


@ray.remote
def render(found):
    rows = sorted(found.items(), key=lambda row: (-row[1], row[0]))
    text = [f"{key:>8} {count:>6} {'#' * count}" for key, count in rows]
    return len("\n".join(text))


def main():
    ray.init()
    parts = [count.remote(part) for part in range(16)]
    print(sum(ray.get([render.remote(part) for part in parts])))


if __name__ == "__main__":
    main()
