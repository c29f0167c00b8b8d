"""Eight tasks of a short program."""

import sundog as ray


@ray.remote
def square_sum(low):
    return sum(n * n for n in range(low, low + 150_000))


if __name__ == "__main__":
    ray.init()
    print(sum(ray.get([square_sum.remote(low) for low in range(0, 1_200_000, 150_000)])))
