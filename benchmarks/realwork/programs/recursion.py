"""Recursive tasks that wait for their children: the sum over a tree of 287 tasks. Runs in driver and workers."""

from __future__ import annotations

from typing import Any

_DEPTH = 11  # calls of the Fibonacci recursion below: 287


def leaf(n: int) -> int:
    total = 0
    for step in range(2_000):
        total = (total + step * n) & 0xFFFF
    return total


def fib(n: int) -> int:
    return leaf(n) + (fib(n - 1) + fib(n - 2) if n > 1 else n)


def serial() -> int:
    return fib(_DEPTH)


def raylike(ray: Any) -> int:
    name = ray.__name__

    def visit(n: int) -> int:
        import importlib

        api = importlib.import_module(name)
        below = api.get([node.remote(n - 1), node.remote(n - 2)]) if n > 1 else [n]
        return leaf(n) + sum(below)

    node = ray.remote(visit)
    return int(ray.get(node.remote(_DEPTH)))


def _dask_node(n: int) -> int:
    from distributed import worker_client

    if n <= 1:
        return leaf(n) + n
    with worker_client() as client:
        below = client.gather(client.map(_dask_node, [n - 1, n - 2], pure=False))
    return leaf(n) + int(sum(below))


def dask(client: Any) -> int:
    return int(client.submit(_dask_node, _DEPTH, pure=False).result())
