"""``python -m tests.serve_chaos``: rolling updates under HTTP load, while processes of Serve are killed.

Exit status 1 if a request failed that must not fail, or if something is left behind. The same seed kills in the same
order.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import sundog
from sundog import serve
from sundog.serve import client
from sundog.util import state
from tests.serve_chaos.judge import Kill, Update, summary, violations
from tests.serve_chaos.load import Load

_SHOWN_MAX = 20
_REPLICAS = 3


class Version:
    """Answers with its number, after a while."""

    def __init__(self, number: int) -> None:
        self.number = number

    async def __call__(self, request: object) -> dict[str, int]:
        await asyncio.sleep(0.002)
        return {"version": self.number, "pid": os.getpid()}


application: Any = serve.deployment(
    num_replicas=_REPLICAS,
    max_ongoing_requests=50,
    ray_actor_options={"num_cpus": 0},
    health_check_period_s=0.3,
)(Version)


class Killer(threading.Thread):
    """Kills one process after another while updates go on, the next when all that Serve needs is there again."""

    def __init__(self, dice: random.Random, proxies: int) -> None:
        super().__init__(daemon=True)
        self.kills: list[Kill] = []
        self._dice = dice
        self._needed = {"replica": _REPLICAS, "proxy": proxies, "controller": 1}
        self._is_over = threading.Event()

    def run(self) -> None:
        while not self._is_over.wait(self._dice.uniform(0.3, 2.0)):
            kind = self._dice.choice(["replica", "replica", "proxy", "controller"])
            if any(len(pids_of(each)) < needed for each, needed in self._needed.items()):
                continue
            pids = pids_of(kind)
            before = time.monotonic()
            with suppress(ProcessLookupError, IndexError):
                os.kill(self._dice.choice(pids), signal.SIGKILL)
                self.kills.append(Kill(kind, before, time.monotonic()))

    def end(self) -> list[Kill]:
        """Kill no more."""
        self._is_over.set()
        self.join()
        return self.kills


def pids_of(kind: str) -> list[int]:
    """The processes of a kind that live now."""
    words = {"replica": "SERVE_REPLICA", "proxy": "SERVE_PROXY", "controller": "SERVE_CONTROLLER"}
    with suppress(Exception):
        rows = state.list_actors(filters=[("state", "=", "ALIVE")])
        return sorted(int(row.pid) for row in rows if row.pid and words[kind] in (row.name or ""))
    return []


def play(port: int, first: int, updates: int, clients: int, killer: Killer | None) -> list[str]:
    """Update so many times under load, with kills if there is a killer; returns what must not have happened."""
    done = [Update(first, time.monotonic(), time.monotonic())]
    serve.run(application.bind(first))
    load = Load(port, clients)
    if killer is not None:
        killer.start()
    try:
        for number in range(first + 1, first + 1 + updates):
            began = time.monotonic()
            serve.run(application.bind(number))
            done.append(Update(number, began, time.monotonic()))
    finally:
        kills = killer.end() if killer is not None else []
        asked = load.end()
    print(summary(asked, kills, done[1:]), flush=True)
    return violations(asked, kills, done)


def main(argv: Sequence[str]) -> int:
    """Run, print, say how it went."""
    parser = argparse.ArgumentParser(prog="python -m tests.serve_chaos", description=__doc__)
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--proxies", type=int, default=2)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("CHAOS_SEED", "1")))
    options = parser.parse_args(argv)
    print(f"seed {options.seed}", flush=True)
    sundog.init(num_cpus=4, logging_level="ERROR", log_to_driver=False)
    try:
        serve.start(http_options={"port": 0, "num_proxies": options.proxies})
        port = sundog.get(client.connect().controller.ready.remote())[1]
        found = play(port, 1, options.updates, options.clients, None)
        killer = Killer(random.Random(options.seed), options.proxies)
        found += play(port, options.updates + 2, options.updates, options.clients, killer)
        serve.shutdown()
    finally:
        sundog.shutdown()
    for each in found[:_SHOWN_MAX]:
        print("violation:", each)
    print(f"{len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
