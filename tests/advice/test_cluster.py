"""Findings about the nodes of a cluster, from records made by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sundog import events
from sundog.advice import cluster
from sundog.observe.index import Index, opened

BUSY, IDLE = "aa" * 28, "bb" * 28
DRIVER = b"\xef" * 8


class Session:
    """A folder with rings, and an index over them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "rings").mkdir()
        self.rings: dict[str, events.Ring] = {}
        self.facts: list[tuple[float, str, str, dict[str, Any]]] = []
        self.tasks = 0
        self.ready: list[tuple[bytes, float]] = []

    def ran(
        self,
        node: str,
        submit_s: float,
        start_s: float,
        end_s: float,
        by_value: int = 0,
        ready_s: float = 0.0,
    ) -> None:
        ring = self.rings.get(node)
        if ring is None:
            path = self.folder / "rings" / f"{node[:16]}.ring"
            ring = self.rings[node] = events.Ring(str(path), 512, "worker", b"\1\0\0\0")
            ring.note("home", node=node)
        self.tasks += 1
        task = DRIVER + self.tasks.to_bytes(8, "little")
        ring.write(events.TASK, task, ring.name("work"), submit_s, start_s, end_s)
        if ready_s:
            self.ready.append((task, ready_s))
        if by_value:
            ring.write(events.MOVED, task, by_value, 0, end_s, end_s)

    def node(self, node: str, at_s: float, cpus: float = 1.0) -> None:
        row = {"node_id": node, "state": "ALIVE", "resources_total": {"CPU": cpus}}
        self.facts.append((at_s, "node", node, {"row": row}))

    def index(self) -> Any:
        for ring in self.rings.values():
            ring.close()
        return opened(str(self.folder))

    def found(self, length_s: float) -> list[Any]:
        with self.index() as index:
            self.fill(index)
            return cluster.find(index, length_s)

    def fill(self, index: Index) -> None:
        for task, ready_s in self.ready:
            index.db.execute("INSERT INTO ready VALUES(?, ?, 0)", (task, ready_s))
        for at_s, kind, subject, facts in self.facts:
            index.db.execute(
                "INSERT INTO facts VALUES(?, ?, x'', ?, ?)", (at_s, kind, subject, json.dumps(facts))
            )


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    yield Session(tmp_path)


def test_a_node_that_is_idle_while_tasks_wait_is_named(session: Session) -> None:
    session.node(BUSY, 0.0)
    session.node(IDLE, 0.0)
    session.ran(IDLE, 0.0, 0.1, 1.0)
    for number in range(20):
        session.ran(BUSY, 0.0, 1.0 * number, 1.0 * number + 1)
    [found] = session.found(20.0)
    assert found.kind == "idle-node" and IDLE[:8] in found.title
    assert 17 < found.cost_s < 19.1 and found.gain_s == pytest.approx(found.cost_s / 2)
    assert "SPREAD" in found.change


def wants(at_s: float, **shape: float) -> tuple[float, str, str, dict[str, Any]]:
    pending = [{"shape": shape, "count": 3}] if shape else []
    return (at_s, "demand", "", {"pending": pending, "starting": [], "launches": [], "nodes": 2})


def test_a_node_is_not_accused_while_what_waits_could_not_run_there(session: Session) -> None:
    session.node(BUSY, 0.0)
    session.node(IDLE, 0.0)
    session.ran(IDLE, 0.0, 0.1, 1.0)
    for number in range(20):
        session.ran(BUSY, 0.0, 1.0 * number, 1.0 * number + 1)
    session.facts += [wants(0.0, GPU=1.0), wants(19.0)]
    assert session.found(20.0) == []


def test_a_node_is_accused_for_as_long_as_the_cluster_says_that_its_kind_is_wanted(session: Session) -> None:
    session.node(BUSY, 0.0)
    session.node(IDLE, 0.0)
    session.ran(IDLE, 0.0, 0.1, 1.0)
    for number in range(20):
        session.ran(BUSY, 0.0, 1.0 * number, 1.0 * number + 1)
    session.facts += [wants(0.0, GPU=1.0), wants(5.0, CPU=1.0), wants(12.0)]
    [found] = session.found(20.0)
    assert found.kind == "idle-node" and found.cost_s == pytest.approx(7.0)


def test_tasks_that_wait_for_their_arguments_accuse_no_node(session: Session) -> None:
    session.node(BUSY, 0.0)
    session.node(IDLE, 0.0)
    session.ran(IDLE, 0.0, 0.1, 1.0)
    for number in range(20):  # each waits for the one before it
        session.ran(BUSY, 0.0, 1.0 * number, 1.0 * number + 1, ready_s=1.0 * number - 0.05)
    assert session.found(20.0) == []


def test_short_gaps_between_tasks_are_no_idleness(session: Session) -> None:
    for node, late_s in ((BUSY, 0.0), (IDLE, 1.5)):
        session.node(node, 0.0)
        for number in range(6):
            session.ran(node, 0.0, 3.0 * number, 3.0 * number + 3 - late_s)
    assert session.found(18.0) == []


def test_two_busy_nodes_are_no_finding(session: Session) -> None:
    for node in (BUSY, IDLE):
        session.node(node, 0.0)
        for number in range(10):
            session.ran(node, 0.0, 1.0 * number, 1.0 * number + 1)
    assert session.found(10.0) == []


def test_a_session_of_one_node_has_no_such_findings(session: Session) -> None:
    session.node(BUSY, 0.0)
    session.ran(BUSY, 0.0, 5.0, 6.0, by_value=2 << 20)
    assert session.found(6.0) == []


def look(at_s: float, pending: int, nodes: int, *, starting: int = 0, failed: str = "") -> Any:
    launches = [{"kind": "failed", "type": "gpu", "count": 1, "details": failed}] if failed else []
    demands = [{"shape": {"CPU": 1.0}, "count": pending}] if pending else []
    facts = {"pending": demands, "starting": ["worker"] * starting, "launches": launches, "nodes": nodes}
    return (at_s, "demand", "", facts)


def test_an_autoscaler_that_waits_is_told_with_what_it_cost(session: Session) -> None:
    session.facts += [look(0.0, 4, 1, starting=2), look(8.0, 2, 3), look(10.0, 0, 3)]
    session.ran(BUSY, 0.0, 8.0, 10.0)
    [found] = session.found(10.0)
    assert found.kind == "autoscaler-waits" and found.gain_s == pytest.approx(8.0)
    assert "min_workers" in found.change


def test_nodes_that_cannot_be_started_are_told_with_the_reason(session: Session) -> None:
    session.facts += [look(0.0, 4, 1, failed="no capacity"), look(9.0, 4, 1)]
    session.ran(BUSY, 0.0, 0.1, 9.0)
    [found] = session.found(9.0)
    assert "gpu: no capacity" in found.evidence


def test_arguments_that_travel_again_and_again(session: Session) -> None:
    session.node(BUSY, 0.0)
    session.node(IDLE, 0.0)
    for number in range(6):
        session.ran((BUSY, IDLE)[number % 2], 1.0 * number, 1.0 * number, 1.0 * number + 1, by_value=4 << 20)
    [found] = session.found(6.0)
    assert found.kind == "arguments-moved" and found.often == 6 and "24 MiB to 2 nodes" in found.title


def test_one_node_that_spills_alone(session: Session) -> None:
    for node in (BUSY, IDLE):
        session.node(node, 0.0)
        session.ran(node, 0.0, 0.1, 5.0)
    session.facts += [
        (2.0, "store", BUSY, {"spilled_bytes": 50 << 20}),
        (3.0, "store", IDLE, {"spilled_bytes": 1 << 20}),
    ]
    [found] = session.found(5.0)
    assert found.kind == "one-node-spills" and BUSY[:8] in found.title and "50 MiB" in found.title
