"""`sundog memory` on a real session: who holds what, by which variable."""

# mypy: disable-error-code="untyped-decorator"
# `ray` is whichever module the fixture gives, so its decorator has no type.
from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy
from click.testing import CliRunner

from sundog.cli import main
from tests.integration.gates import Gate, await_true


def sundog(*arguments: str, code: int = 0) -> str:
    found = CliRunner().invoke(main, ["memory", *arguments], standalone_mode=True)
    assert found.exit_code == code, found.output
    return str(found.output)


def test_each_kind_of_reference_is_told_with_its_holder_its_line_and_its_variable(
    ray: ModuleType, tmp_path: Path
) -> None:
    gate = Gate(tmp_path)

    @ray.remote
    class Keeper:
        def __init__(self) -> None:
            self.kept: list[Any] = []

        def keep(self, array: Any) -> int:
            self.kept.append(array)
            return len(self.kept)

    @ray.remote
    def waits(array: Any) -> None:
        gate.enter()

    keeper = Keeper.remote()
    weights = ray.put(numpy.zeros(1 << 20))
    ray.get(keeper.keep.remote(weights))
    pending = ray.put(numpy.ones(1 << 17))
    ref = waits.remote(pending)
    await_true(gate.inside, "the task runs")
    captured = ray.put([ray.put(numpy.ones(1 << 16))])

    found = json.loads(sundog("--why", "--json"))
    [node] = found["groups"]
    rows = {(row["object_id"], row["type"]): row for row in node["references"]}
    own, kept = rows[weights.hex(), "driver"], rows[weights.hex(), "worker"]
    assert (own["kind"], own["size_bytes"], own["where"]) == ("LOCAL_REFERENCE", 1 << 23, "shared memory")
    assert "test_memory.py:" in own["call_site"] and 0 <= own["age_s"] < 3600
    assert own["held_by"][0][1].startswith("variable weights of test_each_kind")
    assert (kept["kind"], kept["size_bytes"]) == ("PINNED_IN_MEMORY", 1 << 23)
    assert kept["held_by"][0][1:] == [
        "list[0] of 1",
        "attribute kept of a Keeper",
        "the actor itself",
    ]
    assert rows[pending.hex(), "driver"]["kind"] == "USED_BY_PENDING_TASK"
    assert {"CAPTURED_IN_OBJECT", "ACTOR_HANDLE"} <= {row["kind"] for row in node["references"]}
    assert own["borrowers"] == [next(p["worker_id"] for p in _workers(ray) if p["pid"] == kept["pid"])]
    assert node["object_bytes"] >= (1 << 23) + (1 << 20) + (1 << 19)
    assert found["store"]["used_bytes"] >= node["object_bytes"] - 4096 and found["silent"] == []
    driver = next(each for each in found["processes"] if each["what"].startswith("driver"))
    assert driver["own_bytes"] == driver["rss_bytes"] - driver["shared_bytes"]
    assert {"node", "zygote"} <= {each["what"] for each in found["processes"]}

    text = sundog("--group-by", "STACK_TRACE", "--sort-by", "PID", "--units", "MB", "-n", "2")
    lines = [line for line in text.splitlines() if weights.hex() in line]
    pids = [int(line.split()[0]) for line in lines]
    assert len(lines) == 2 and pids == sorted(pids) and all("8.389 MB" in line for line in lines)
    assert weights.hex() not in sundog("--stats-only")
    assert "is none of: node" in sundog("--group-by", "colour", code=2)
    gate.open()
    ray.get(ref)
    del captured


def _workers(ray: ModuleType) -> list[dict[str, Any]]:
    from sundog.util import state

    return [row.asdict() for row in state.list_workers()]
