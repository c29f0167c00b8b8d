"""A new task is sent out whenever one is ready, and its result is added up."""

import sundog as ray


@ray.remote
def collatz(first, count):
    longest = 0
    for n in range(first, first + count):
        steps = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        longest = max(longest, steps)
    return longest


ray.init()
work = iter(range(1, 40_000, 1000))
running = [collatz.remote(next(work), 1000) for _ in range(4)]
longest = 0
while running:
    [ref], running = ray.wait(running)
    longest = max(longest, ray.get(ref))
    following = next(work, None)
    if following is not None:
        running.append(collatz.remote(following, 1000))
print(longest)
