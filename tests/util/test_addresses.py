"""How this machine is called by the session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import sundog
from sundog.util import addresses


class FakeContext:
    """The runtime context of a process on a node."""

    def __init__(self, node_id: str) -> None:
        self._node_id = node_id

    def get_node_id(self) -> str:
        return self._node_id


@pytest.fixture
def rows() -> Iterator[list[dict[str, object]]]:
    """The nodes of a session in which this process is on node `a`."""
    found: list[dict[str, object]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(addresses, "_known", {})
        patch.setattr(sundog, "is_initialized", lambda: True)
        patch.setattr(sundog, "get_runtime_context", lambda: FakeContext("a"))
        patch.setattr(sundog, "nodes", lambda: found)
        yield found


def test_without_a_session_it_is_this_machine() -> None:
    assert addresses.get_node_ip_address() == "127.0.0.1" and addresses.get_node_instance_id() == ""


def test_the_row_of_the_own_node_is_told(rows: list[dict[str, object]]) -> None:
    rows += [
        {"NodeID": "b", "NodeManagerAddress": "10.0.0.2"},
        {"NodeID": "a", "NodeManagerAddress": "10.0.0.1", "InstanceID": "i-7"},
    ]
    assert addresses.get_node_ip_address("8.8.8.8:53") == "10.0.0.1"
    assert addresses.get_node_instance_id() == "i-7"


def test_a_node_that_is_not_listed_yet_is_looked_for_again(rows: list[dict[str, object]]) -> None:
    assert addresses.get_node_ip_address() == "127.0.0.1"
    rows.append({"NodeID": "a", "NodeManagerAddress": "10.0.0.1"})
    assert addresses.get_node_ip_address() == "10.0.0.1"
