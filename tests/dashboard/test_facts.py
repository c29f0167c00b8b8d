"""Facts of a node, followed."""

from __future__ import annotations

import json
from pathlib import Path

from sundog.dashboard.facts import FactTail
from sundog.observe import segments


def append(writer: segments.Writer, kind: str, **facts: object) -> None:
    line = json.dumps({"fact": kind, "s": 1.0, **facts}) + "\n"
    writer.append(segments.FACTS, line.encode(), bytes(8))


def death(cause: str, exit_type: str, reason: str = "", worker: str = "WORKER") -> dict[str, object]:
    return {"cause": cause, "reason": reason, "row": {"worker_type": worker, "exit_type": exit_type}}


def test_deaths_spills_and_samples_are_counted_as_they_come(tmp_path: Path) -> None:
    writer = segments.Writer(str(tmp_path), bytes(16), 1 << 20, 0.0)
    tail = FactTail(str(tmp_path))
    tail.read()
    append(writer, "worker", **death("signal", "SYSTEM_ERROR"))
    append(writer, "worker", **death("ended", "INTENDED_SYSTEM_EXIT", "idle"))
    append(writer, "worker", **death("signal", "SYSTEM_ERROR", worker="DRIVER"))
    append(writer, "spill", subject="file", bytes=10, count=2, seconds=0.5)
    tail.read()
    append(writer, "worker", **death("memory", "NODE_OUT_OF_MEMORY"))
    append(writer, "restore", subject="x", bytes=4, seconds=0.25)
    append(writer, "machine", cpu=0.5)
    writer.append(segments.FACTS, b"not json\n[1]\n", bytes(8))
    writer.append(segments.EVENTS, bytes(64), bytes(8), role=segments.WORKER, first=1)
    tail.read()
    tail.read()
    writer.close()
    assert tail.deaths == {"signal": 1, "ended: idle": 1, "memory": 1}
    assert tail.out_of_memory == {"memory": 1}
    assert (tail.spilled_bytes, tail.spilled_objects, tail.spill_s) == (10, 2, 0.5)
    assert (tail.restored_bytes, tail.restored_objects, tail.restore_s) == (4, 1, 0.25)
    assert [fact.data["cpu"] for fact in tail.machine] == [0.5]
    assert [fact.kind for fact in tail.events] == ["worker", "worker", "worker", "spill", "worker", "restore"]
