"""What the node records of itself: rows as the state API shows them, and the machine each second."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sundog.machine import Reading
from sundog.node.chronicle import Chronicle
from sundog.node.rows import Environment, Process
from sundog.state.status import GroupRow
from sundog.wire.cause import Cause
from tests.node.fakes import FakeLoop, FakeMemory

ENV = '{"env_vars": {"MODE": "a", "API_KEY": "hush"}}'


class FakeRecords:
    """Keeps the facts."""

    enabled = True

    def __init__(self) -> None:
        self.facts: list[tuple[str, dict[str, Any]]] = []

    def fact(self, kind: str, **facts: Any) -> None:
        self.facts.append((kind, facts))


class FakeStores:
    def figures(self) -> dict[str, int]:
        return {"spilled_bytes": 7}


@dataclass
class FakeActor:
    """An actor's row, of which its owner alone matters."""

    owner: bytes = b"o" * 8


class FakeKeeper:
    """One actor."""

    def __init__(self) -> None:
        self.actors = {b"a" * 16: FakeActor()}


class FakeListings:
    """Rows of the state API."""

    def nodes(self) -> list[dict[str, Any]]:
        return [{"node_id": "ab"}]

    def actor(self, _row: FakeActor) -> dict[str, Any]:
        return {"actor_id": "aa", "state": "DEAD", "serialized_runtime_env": ENV}

    def environment(self, env: Environment, used: int) -> dict[str, Any]:
        return {"runtime_env": env.runtime_env, "error": env.error, "ref_cnt": used}

    def placement_group(self, row: GroupRow) -> dict[str, Any]:
        return {"placement_group_id": row.pg_id.hex(), "state": row.state}


class FakeLeases:
    """One placement group; only its own row can be asked for, for there may be thousands."""

    def group(self, pg_id: bytes) -> GroupRow | None:
        if pg_id != b"\x0c":
            return None
        return GroupRow(pg_id, "", "PACK", "CREATED", "", b"o" * 8, (), (), "", 1, 0.1, "", "")


class FakeRequests:
    def __init__(self) -> None:
        self.listings = FakeListings()

    def store_figures(self) -> dict[str, int]:
        return {"segments": 1, "used_bytes": 3}


class FakeNode:
    """What `Chronicle` sees of a node."""

    def __init__(self, folder: Path) -> None:
        self.session = {"path": str(folder), "store_bytes": 100}
        self.processes: dict[bytes, None] = {b"w" * 8: None}
        self.records, self.stores, self.keeper = FakeRecords(), FakeStores(), FakeKeeper()
        self.loop, self.memory, self.requests = FakeLoop(), FakeMemory(), FakeRequests()
        self.leases = FakeLeases()
        self.memory.reading = Reading(5, 10, "this machine")
        self.facts, self.timers = self.records.facts, self.loop.timers


def test_the_machine_is_sampled_again_and_again(tmp_path: Path) -> None:
    node: Any = FakeNode(tmp_path)
    Chronicle(node).start()
    for _ in range(3):
        node.timers.pop()()
    kinds = [kind for kind, _ in node.facts]
    assert kinds == ["node", "machine", "machine", "machine"]
    sample = node.facts[-1][1]
    assert (sample["memory_used"], sample["memory_total"], sample["store_used"], sample["store_total"]) == (
        5,
        10,
        3,
        100,
    )
    assert 0.0 <= sample["cpu"] <= 1.0 and sample["workers"] == 1 and sample["disk_free"] > 0


def test_lives_are_recorded_with_their_rows_and_causes(tmp_path: Path) -> None:
    node: Any = FakeNode(tmp_path)
    chronicle = Chronicle(node)
    process = Process(b"w" * 8, "worker", None, b"")  # type: ignore[arg-type]
    cause = Cause(reason="killed", last_line="a.py:3", facts={"limit_bytes": 3, "odd": object()})
    chronicle.process_died(process, {"worker_id": "ww"}, cause)
    chronicle.actor_changed(b"a" * 16)
    chronicle.actor_changed(b"x" * 16)
    chronicle.group_changed(b"\x0c")
    chronicle.group_changed(b"\x0d")
    chronicle.spilled("/disk/1", [("one", 0, 10), ("two", 10, 20)], 0.5)
    chronicle.restored("one", 10, 0.1)
    (_, died), (_, actor), (_, group), (_, spill), (_, restore) = node.facts
    assert (died["row"], died["reason"], died["last_line"]) == ({"worker_id": "ww"}, "killed", "a.py:3")
    assert died["facts"] == {"limit_bytes": 3}
    assert (actor["row"]["state"], actor["owner"]) == ("DEAD", (b"o" * 8).hex())
    assert group["row"]["state"] == "CREATED"
    assert (spill["objects"], spill["bytes"], restore["subject"]) == ([["one", 10], ["two", 20]], 30, "one")


def test_environments_are_recorded_without_their_secrets(tmp_path: Path) -> None:
    node: Any = FakeNode(tmp_path)
    chronicle = Chronicle(node)
    chronicle.actor_changed(b"a" * 16)
    chronicle.environment_changed(Environment("", b"j", {}))
    chronicle.environment_changed(Environment("k", b"j", json.loads(ENV), error="no such package"))
    (_, actor), (kind, env) = node.facts
    assert (kind, env["subject"], env["row"]["error"]) == ("runtime_env", "k", "no such package")
    assert env["row"]["runtime_env"]["env_vars"]["MODE"] == "a"
    assert "API_KEY" in actor["row"]["serialized_runtime_env"] and "hush" not in str(node.facts)


def test_the_first_sample_tells_of_the_time_since_the_start(tmp_path: Path, monkeypatch: Any) -> None:
    stat = tmp_path / "stat"
    real_open = open
    monkeypatch.setattr(
        "builtins.open",
        lambda path, *more, **how: real_open(stat if path == "/proc/stat" else path, *more, **how),
    )
    stat.write_text("cpu 900 0 0 100 0 0 0 0\n")  # busy since the machine's start
    node = FakeNode(tmp_path)
    chronicle = Chronicle(node)  # type: ignore[arg-type]
    chronicle.start()
    stat.write_text("cpu 925 0 0 175 0 0 0 0\n")
    node.timers.pop()()
    assert [facts["cpu"] for kind, facts in node.facts if kind == "machine"] == [0.25]
