"""Thousands of small clusters, each from a seed: leases, placement groups and actors under every order of
events.

To run one seed again: ``pytest tests/state/simulation --simulation-seed=1234``.
"""

from __future__ import annotations

import pytest

from tests.state.simulation.world import World

SEEDS = 2_500
BLOCK = 250


def run(seed: int) -> None:
    world = World(seed)
    try:
        for _ in range(world.rng.randrange(40, 120)):
            world.step()
        world.finish()
        world.end_everything()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_invariants_hold_whatever_dies_or_is_overtaken(first: int, simulation_seed: int | None) -> None:
    for seed in range(first, first + BLOCK) if simulation_seed is None else [simulation_seed]:
        run(seed)
