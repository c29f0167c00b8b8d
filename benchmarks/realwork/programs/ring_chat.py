"""Five agents sit in a ring; each answers what the one before it said, 2,000 times. Runs in driver and workers."""

from __future__ import annotations

import multiprocessing
from typing import Any

_AGENTS = 5
_TURNS = 2_000


class Agent:
    """Remembers what it heard, and answers with a number that depends on it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.heard = 0

    def answer(self, said: dict[str, int]) -> dict[str, int]:
        self.heard += said["value"]
        return {"turn": said["turn"] + 1, "value": (said["value"] * 31 + self.heard + self.number) % 9973}


_FIRST = {"turn": 0, "value": 1}


def serial() -> list[int]:
    agents = [Agent(number) for number in range(_AGENTS)]
    said = _FIRST
    for turn in range(_TURNS):
        said = agents[turn % _AGENTS].answer(said)
    return [said["turn"], said["value"]]


def raylike(ray: Any) -> list[int]:
    agents = [ray.remote(num_cpus=0)(Agent).remote(number) for number in range(_AGENTS)]
    said: Any = _FIRST
    for turn in range(_TURNS):
        said = agents[turn % _AGENTS].answer.remote(
            said
        )  # the ref: each agent reads what the one before it made
    last = ray.get(said)
    return [last["turn"], last["value"]]


def dask(client: Any) -> list[int]:
    agents = client.gather([client.submit(Agent, n, actor=True, pure=False) for n in range(_AGENTS)])
    said = _FIRST
    for turn in range(_TURNS):
        said = agents[turn % _AGENTS].answer(said).result()
    return [said["turn"], said["value"]]


def _sit(number: int, source: Any, sink: Any, driver: Any) -> None:
    agent = Agent(number)
    while (said := source.recv()) is not None:
        said = agent.answer(said)
        (driver if said["turn"] == _TURNS else sink).send(said)


def pool(pool: Any) -> list[int]:
    pipes = [multiprocessing.Pipe(duplex=False) for _ in range(_AGENTS)]
    last, driver = multiprocessing.Pipe(duplex=False)
    agents = [
        multiprocessing.Process(target=_sit, args=(n, pipes[n][0], pipes[(n + 1) % _AGENTS][1], driver))
        for n in range(_AGENTS)
    ]
    for agent in agents:
        agent.start()
    pipes[0][1].send(_FIRST)
    said = last.recv()
    for _, sink in pipes:
        sink.send(None)
    for agent in agents:
        agent.join()
    return [said["turn"], said["value"]]
