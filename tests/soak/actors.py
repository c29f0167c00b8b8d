"""The program of a soak of lives: actors that come and go, one generation after the other, and nothing else.

Owns one session. Speaks with the sampler as `tests.soak.program` does: facts as one line of JSON, rounds until its
standard input is closed, then how many there were. Every fourth actor is killed, every result is checked. Run as
``python -m tests.soak.actors SEED``.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

import sundog as ray
from sundog.owner import context

GENERATION = 4
# Small, so that the quota of records and of files is reached in the first half of the run.
SETTINGS = {"dead_process_files": 50, "record_events_max": 20_000}


@ray.remote(num_cpus=0)
class Guest:
    """Lives for a moment."""

    def __init__(self, number: int) -> None:
        self.number = number

    def who(self, more: int) -> int:
        """Its number, and something that it was given."""
        return self.number + more


def generation(number: int) -> None:
    """A few actors live, answer and go; one of them is killed."""
    guests: list[Any] = [Guest.remote(number + each) for each in range(GENERATION)]
    for more in range(10):
        found = ray.get([guest.who.remote(more) for guest in guests])
        assert found == [number + each + more for each in range(GENERATION)], found
    ray.kill(guests[0])


def _await_end(over: threading.Event) -> None:
    sys.stdin.read()
    over.set()


def main() -> int:
    """Play until standard input ends."""
    ray.init(num_cpus=2, logging_level="ERROR", log_to_driver=False, _system_config=SETTINGS)
    facts = context.facts.session
    print(json.dumps({"pid": os.getpid(), "path": facts["path"], "shm_root": facts["shm_root"]}), flush=True)
    over = threading.Event()
    threading.Thread(target=_await_end, args=(over,), daemon=True).start()
    rounds = 0
    while not over.is_set():
        generation(rounds)
        rounds += 1
    ray.shutdown()
    print(json.dumps({"rounds": rounds}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
