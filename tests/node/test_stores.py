"""Which node's store a message is for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sundog.node.store import StoreKeeper
from sundog.node.stores import Stores
from sundog.state.store import Spilled
from sundog.state.store_steps import SpillPlace
from tests.node.fakes import FakeNode

HEAD, OTHER = b"h" * 16, bytes.fromhex("0b0b0b0b") + b"o" * 12


class _Tenancy:
    """Limits of no job."""

    def store_came(self, _keeper: StoreKeeper) -> None: ...


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    (tmp_path / "sundog-1-0a1b2c3d").mkdir()
    node: Any = FakeNode(shm_root=str(tmp_path / "sundog-1-0a1b2c3d"))
    node.node_id, node.tenancy = HEAD, _Tenancy()
    node.params["resources"] = {"object_store_memory": 1 << 20}
    node.session["spill_folders"] = [str(tmp_path / "spilled")]
    return Stores(node)


def test_each_node_has_a_store_of_its_own_size_and_place(stores: Stores) -> None:
    made = stores.joined(OTHER, 5 << 20)

    assert list(stores) == [stores.head, made]
    assert made.store.limit == 5 << 20 and stores.head.store.limit == 1 << 20
    assert made.shm_root == stores.head.shm_root + ".0b0b0b0b"
    assert made.folders == [stores.head.folders[0] + "/node-0b0b0b0b"]
    assert stores.of(OTHER) is made and stores.of(HEAD) is stores.head


def test_an_object_is_restored_by_the_store_that_spilled_it_else_by_its_home(stores: Stores) -> None:
    other = stores.joined(OTHER, 5 << 20)
    assert stores.holding("aa-bb-1@0b0b0b0b", HEAD) is other
    assert stores.holding("aa-bb-1", OTHER) is stores.head

    stores.head.store.entries["aa-bb-1@0b0b0b0b"] = Spilled(SpillPlace("/disk/file", 0, 10))
    assert stores.holding("aa-bb-1@0b0b0b0b", OTHER) is stores.head


def test_of_a_lost_node_the_asker_s_own_store_answers(stores: Stores) -> None:
    stores.joined(OTHER, 5 << 20)
    stores.lost(OTHER)

    assert list(stores) == [stores.head]
    assert stores.holding("aa-bb-1@0b0b0b0b", HEAD) is stores.head
