"""The option to run one seed again."""

from __future__ import annotations

import pytest


@pytest.fixture
def simulation_seed(request: pytest.FixtureRequest) -> int | None:
    """The seed given by ``--simulation-seed``, or None for all of them."""
    seed: int | None = request.config.getoption("--simulation-seed", default=None)
    return seed


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--simulation-seed", type=int, default=None, help="run this one seed of the simulations")
