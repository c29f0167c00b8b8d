"""``python -m tests.state.simulation``: many more small clusters than the suite plays, and what happened in them."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence

from tests.state.simulation import test_leases_and_actors
from tests.state.simulation.world import World

_EVENTS = ("join_node", "lose_node", "drain_node")


def count_events(counts: Counter[str]) -> type[World]:
    """A world that counts nodes as they come and go."""

    def counted(name: str) -> object:
        plain = getattr(World, name)

        def step(self: World, *args: object) -> object:
            counts[name] += 1
            return plain(self, *args)

        return step

    return type("CountingWorld", (World,), {name: counted(name) for name in _EVENTS})


def main(argv: Sequence[str]) -> int:
    """Play, and say how it went."""
    parser = argparse.ArgumentParser(prog="python -m tests.state.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=12_000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args(argv)
    counts: Counter[str] = Counter()
    setattr(test_leases_and_actors, "World", count_events(counts))  # noqa: B010 (a name that it imports)
    started = time.monotonic()
    for seed in range(options.first, options.first + options.seeds):
        test_leases_and_actors.run(seed)
    told = ", ".join(f"{name.replace('_', ' ')} {counts[name]:,}" for name in _EVENTS)
    print(f"{options.seeds:,} seeds in {time.monotonic() - started:.0f} s, every invariant held: {told}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
