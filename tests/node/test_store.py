"""The node's side of the object store: credit, spilling to a real folder, restoring, a disk that fills."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from sundog.config import Config
from sundog.node import store as module
from sundog.state.store_steps import Collect
from sundog.wire.control import (
    StoreAsk,
    StoreCollect,
    StoreFreed,
    StoreGrant,
    StoreNotice,
    StoreRestore,
    StoreRestored,
)
from tests.node.whole import DRIVER, Peer, WholeNode, whole_node


@pytest.fixture
def world(tmp_path: Path) -> Iterator[WholeNode]:
    with whole_node(tmp_path, Config(store_fallback_to_disk=False)) as made:
        yield made


def test_credit_is_granted_while_there_is_room_and_refused_with_a_word_after_that(
    world: WholeNode, driver: Peer
) -> None:
    driver.tell(StoreAsk(1, 1000, 0, 0))
    [(_, number, verdict, amount, _)] = driver.heard(StoreGrant)
    assert (number, verdict) == (1, "granted") and amount >= 1000
    driver.tell(StoreAsk(2, 1 << 30, 0, amount))
    for _ in range(200):
        found = driver.heard(StoreGrant)
        if found:
            break
        select.select([], [], [], 0.005)
        world.loop.turn()
        world.loop.ring()
    assert found[0][1:3] == (2, "full")


def test_an_object_that_was_never_spilled_is_nowhere(driver: Peer) -> None:
    driver.tell(StoreRestore(4, "no-such-segment", True))
    assert driver.heard(StoreRestored) == [(StoreRestored.kind, 4, None)]
    driver.tell(StoreFreed("no-such-segment"))  # nothing to free: no error


def test_a_disk_that_fills_is_warned_of_once_and_again_after_it_had_room(
    world: WholeNode, driver: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = iter((0.96, 0.97, 0.90, 0.96))
    monkeypatch.setattr(module, "disk_usage", lambda _folder: (int(next(shares) * 1000), 1000))
    keeper = world.node.stores.head
    for _ in range(4):
        keeper._look_at_disk()
    told = driver.heard(StoreNotice)
    assert len(told) == 2 and "is 96% full: 40 of 1,000 bytes are free" in told[0][1]


def test_every_process_is_asked_to_collect_garbage_but_those_that_start(
    world: WholeNode, driver: Peer
) -> None:
    (worker, peer), *_ = world.forks()
    world.node.processes[worker].state = "starting"
    keeper = world.node.stores.head
    keeper._collect(Collect())
    assert driver.heard(StoreCollect) and not peer.heard(StoreCollect)
    assert DRIVER in world.node.processes and os.path.isdir(keeper.shm_root)
