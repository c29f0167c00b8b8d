"""One task for each part of a grid."""

import sundog as ray


def escape(x, y):
    z = c = complex(x, y)
    for n in range(40):
        if abs(z) > 2:
            return n
        z = z * z + c
    return 40


@ray.remote
def escapes(cells):
    return [escape(x, y) for x, y in cells]


def main():
    ray.init()
    grid = [(i / 120 - 2, j / 90 - 1) for i in range(360) for j in range(180)]
    parts = [grid[i : i + 900] for i in range(0, len(grid), 900)]
    counts = [count for part in ray.get([escapes.remote(part) for part in parts]) for count in part]
    print(sum(counts))


if __name__ == "__main__":
    main()
