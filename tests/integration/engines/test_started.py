"""The session that programs join without being told."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import sundog
from sundog import config
from sundog.engines import sessions, started
from sundog.util.multiprocessing import Pool


@pytest.fixture
def head(leak_check: Path) -> Iterator[sessions.SessionInfo]:
    """A session as of `sundog start --head`."""
    info = sessions.start_head(num_cpus=3)
    yield info
    sundog.shutdown()
    sessions.stop_session(info)


def test_an_init_without_an_address_joins_what_was_started(head: sessions.SessionInfo) -> None:
    sundog.init()
    assert sundog.cluster_resources()["CPU"] == 3
    assert sundog.get_runtime_context().gcs_address == head.address


def test_a_pool_and_a_first_task_join_it_too(head: sessions.SessionInfo) -> None:
    with Pool() as pool:
        assert pool.map(abs, [-1]) == [1]
        assert sundog.cluster_resources()["CPU"] == 3
    sundog.shutdown()
    sundog.get(sundog.put(1))
    assert sundog.cluster_resources()["CPU"] == 3


def test_what_belongs_to_a_new_session_is_refused_and_local_starts_one(head: sessions.SessionInfo) -> None:
    for given in ({"num_cpus": 1}, {"num_gpus": 0}, {"resources": {"a": 1}}, {"labels": {"a": "b"}}):
        with pytest.raises(ValueError, match=r'must not be provided.*address="local"'):
            sundog.init(**given)
    sundog.init("local", num_cpus=1)
    assert sundog.cluster_resources()["CPU"] == 1


def test_an_ended_session_is_not_found_and_leaves_no_link(leak_check: Path) -> None:
    info = sessions.start_head(num_cpus=1)
    home = os.path.dirname(info.path)
    assert started.find(home) == info
    sessions.stop_session(info)
    assert started.find(home) is None
    assert not os.path.lexists(os.path.join(home, "started"))


def test_a_session_of_init_is_joined_by_nobody_unasked(ray: ModuleType) -> None:
    assert started.find(config.load().temp_dir) is None
