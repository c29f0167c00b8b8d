"""Nodes that are gone: why, and what that meant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sundog import events
from sundog.observe import lost_nodes, troubles
from sundog.observe.index import opened
from sundog.observe.sessions import Opened
from sundog.observe.why import explain
from sundog.observe.why_facts import Gatherer

NODE, HEAD = "aa" * 28, "bb" * 28
THERE, HERE, DRIVER = b"\xcd" * 8, b"\xce" * 8, b"\xef" * 8


@pytest.fixture
def session(tmp_path: Path) -> Opened:
    (tmp_path / "rings").mkdir()
    for process, node, attempt, flags in ((THERE, NODE, 0, events.TOLD), (HERE, HEAD, 1, 0)):
        ring = events.Ring(str(tmp_path / "rings" / f"{process.hex()}.ring"), 64, "worker", b"\1\0\0\0")
        ring.note("home", node=node)
        ring.write(events.TASK, DRIVER + bytes(8), ring.name("make"), 1.0, 2.0, 3.0, flags, attempt)
        ring.close()
    return Opened("session_1", str(tmp_path))


def gone(index: Any, **more: Any) -> None:
    row = {"node_id": NODE, "state": "DEAD", "state_message": "no heartbeat", **more}
    for at_s, told in ((1.0, {**row, "state": "ALIVE"}), (9.0, row)):
        index.db.execute(
            "INSERT INTO facts VALUES(?, 'node', x'', ?, ?)", (at_s, NODE, json.dumps({"row": told}))
        )


def test_a_lost_node_is_named_with_its_reason_and_what_ran_again(session: Opened) -> None:
    with opened(session.path) as index:
        gone(index)
        gatherer = Gatherer(session, index)
        [trouble] = troubles.find(gatherer)
        assert trouble.text == f"node {NODE[:8]} was lost"
        story = explain(gatherer.find(trouble.id))
        assert story.subject == f"node {NODE}" and story.verdict.startswith("was lost")
        assert story.because[0] == "no heartbeat" and "make() 1 time" in story.because[-1]
        assert any("from the records of other processes" in each for each in story.because)
        again = explain(gatherer.find((DRIVER + bytes(8)).hex()))
        assert any(
            f"attempt 0 ran on node {NODE[:8]}, which was lost (no heartbeat)" in each
            for each in again.because
        )


def test_a_node_that_was_ended_on_purpose_is_no_loss(session: Opened) -> None:
    with opened(session.path) as index:
        gone(index, is_ended=True)
        [found] = lost_nodes.find(index, 10.0).values()
    assert found.ended and explain(found).verdict.startswith("was ended")


def test_a_node_that_lives_is_not_told_of(session: Opened) -> None:
    with opened(session.path) as index:
        gone(index, state="ALIVE")
        assert lost_nodes.find(index, 10.0) == {}
