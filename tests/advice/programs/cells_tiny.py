"""One task for each cell of a grid."""

import sundog as ray


@ray.remote
def escape(x, y):
    z = c = complex(x, y)
    for n in range(40):
        if abs(z) > 2:
            return n
        z = z * z + c
    return 40


def main():
    ray.init()
    grid = [(i / 120 - 2, j / 90 - 1) for i in range(360) for j in range(180)]
    counts = ray.get([escape.remote(x, y) for x, y in grid])  # fault: tasks-too-small
    print(sum(counts))


if __name__ == "__main__":
    main()
