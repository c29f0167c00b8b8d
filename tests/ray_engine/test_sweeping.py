"""What is left on a node at the end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sundog import events
from sundog.ray_engine import sweeping
from tests.ray_engine.test_pushes import make_ring


def test_a_sweep_brings_what_home_does_not_know_the_capsules_and_the_profiles(tmp_path: Path) -> None:
    ring = make_ring(tmp_path, "aa" * 8)
    for number in range(3):
        ring.write(events.TASK, bytes([number]), ring.name("f"), 0.0, 1.0, 2.0)
    (tmp_path / "capsules").mkdir()
    (tmp_path / "capsules" / "t-0.capsule").write_bytes(b"capsule")
    (tmp_path / "profiles" / "p").mkdir(parents=True)
    (tmp_path / "profiles" / "p" / "12.json").write_bytes(b"{}")
    (found,), capsules, measured = sweeping.sweep(str(tmp_path), {"aa" * 8: (2, 0)})
    assert found.first == 3 and len(found.data) == 64
    assert capsules == {"t-0.capsule": b"capsule"}
    assert measured == {"p/12.json": b"{}"}
    ring.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_what_another_user_put_among_the_records_of_a_node_is_not_swept(tmp_path: Path) -> None:
    ring, planted = make_ring(tmp_path, "aa" * 8), make_ring(tmp_path, "bb" * 8)
    for each in (ring, planted):
        each.write(events.TASK, b"task", each.name("f"), 0.0, 1.0, 2.0)
    (tmp_path / "capsules").mkdir()
    for name in ("mine", "theirs"):
        (tmp_path / "capsules" / f"{name}.capsule").write_bytes(b"capsule")
    for path in (Path(planted.path), tmp_path / "capsules" / "theirs.capsule"):
        os.chown(path, 54321, 54321)
    (tmp_path / "capsules" / "link.capsule").symlink_to(tmp_path / "capsules" / "theirs.capsule")
    found, capsules, _ = sweeping.sweep(str(tmp_path), {})
    assert [push.facts["process"] for push in found] == ["aa" * 8]
    assert list(capsules) == ["mine.capsule"]
    ring.close()
    planted.close()
