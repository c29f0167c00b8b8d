"""Stateful objects that come and go: 200 are created, called twice and ended. Runs in driver and workers."""

from __future__ import annotations

from typing import Any

_COUNT = 200


class Account:
    def __init__(self, number: int) -> None:
        self.balance = number

    def add(self, amount: int) -> int:
        self.balance += amount
        return self.balance


def serial() -> int:
    accounts = [Account(number) for number in range(_COUNT)]
    return sum(account.add(1) for account in accounts) + sum(account.add(2) for account in accounts)


def raylike(ray: Any) -> int:
    remote = ray.remote(num_cpus=0)(Account)
    accounts = [remote.remote(number) for number in range(_COUNT)]
    total = sum(ray.get([account.add.remote(1) for account in accounts]))
    total += sum(ray.get([account.add.remote(2) for account in accounts]))
    for account in accounts:
        ray.kill(account)
    return int(total)


def dask(client: Any) -> int:
    accounts = client.gather([client.submit(Account, n, actor=True, pure=False) for n in range(_COUNT)])
    total = sum(each.result() for each in [account.add(1) for account in accounts])
    return int(total + sum(each.result() for each in [account.add(2) for account in accounts]))
