"""The parts are counted in tasks, and formatted by the program alone."""

import sundog as ray


@ray.remote
def count(part):
    found = {}
    for n in range(part * 30_000, (part + 1) * 30_000):
        key = (n * 2654435761) % 50_021
        found[key] = found.get(key, 0) + 1
    return found


def render(found):
    rows = sorted(found.items(), key=lambda row: (-row[1], row[0]))
    text = [f"{key:>8} {count:>6} {'#' * count}" for key, count in rows]
    return len("\n".join(text))


def main():
    ray.init()
    size = 0
    parts = ray.get([count.remote(part) for part in range(16)])
    for part in parts:  # fault: serial-part
        size += render(part)
    print(size)


if __name__ == "__main__":
    main()
