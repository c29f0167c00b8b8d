"""What is new in the rings of a node."""

from __future__ import annotations

import json
from pathlib import Path

from sundog import events
from sundog.ray_engine import pushes


def make_ring(folder: Path, process_id: str) -> events.Ring:
    (folder / "rings").mkdir(exist_ok=True)
    path = folder / "rings" / f"{process_id}.ring"
    Path(f"{path}.json").write_text(json.dumps({"process": process_id, "node": "ab"}))
    return events.Ring(str(path), 64, "worker")


def test_a_push_has_what_is_new_and_nothing_else(tmp_path: Path) -> None:
    ring = make_ring(tmp_path, "aa" * 8)
    ring.write(events.TASK, b"one", ring.name("f"), 0.0, 1.0, 2.0)
    first = pushes.read_push(ring.path, 0, 0)
    assert first is not None and first.first == 1 and len(first.data) == 64 and b"'f'" in first.names
    ring.write(events.TASK, b"two", ring.name("f"), 0.0, 1.0, 2.0)
    second = pushes.read_push(ring.path, 1, len(first.names))
    assert second is not None and second.first == 2 and second.data[:3] == b"two" and second.names == b""
    third = pushes.read_push(ring.path, 2, len(first.names))
    assert third is not None and third.is_empty
    ring.close()


def test_what_is_no_ring_gives_no_push(tmp_path: Path) -> None:
    (tmp_path / "x.ring").write_bytes(b"?")
    assert pushes.read_push(str(tmp_path / "x.ring"), 0, 0) is None
    assert pushes.read_push(str(tmp_path / "y.ring"), 0, 0) is None
