"""Fixtures of the tests with real processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import sundog
from sundog.cluster_utils import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster without nodes; they end with the test."""
    made = Cluster()
    yield made
    sundog.shutdown()
    made.shutdown()
