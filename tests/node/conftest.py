"""A whole node for each test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.whole import Peer, WholeNode, whole_node


@pytest.fixture
def world(tmp_path: Path) -> Iterator[WholeNode]:
    """A node whose zygote forks nothing."""
    with whole_node(tmp_path) as made:
        yield made


@pytest.fixture
def driver(world: WholeNode) -> Peer:
    """A driver that is connected to it."""
    return world.driver()
