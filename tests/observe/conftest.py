"""The records of a small session, as its worker left them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sundog import events
from sundog.observe.sessions import Opened

WORKER, DRIVER = b"\xcd" * 8, b"\xef" * 8


def task_id(number: int) -> bytes:
    """The id of one of the driver's tasks."""
    return DRIVER + number.to_bytes(8, "little")


@pytest.fixture
def session(tmp_path: Path) -> Opened:
    """An ended session: six tasks of f(), of which the fourth failed, and one of g() that had not ended."""
    (tmp_path / "rings").mkdir()
    ring = events.Ring(str(tmp_path / "rings" / f"{WORKER.hex()}.ring"), 64, "worker", b"\1\0\0\0")
    for number in range(6):
        flags = events.FAILED if number == 3 else 0
        ring.write(events.TASK, task_id(number), ring.name("f"), 10.0, 11.0 + number, 11.5 + number, flags)
    ring.note(
        "error", task=task_id(3).hex(), attempt=0, type="TASK_EXECUTION_EXCEPTION", message="ValueError: no"
    )
    ring.started(task_id(9), 30.0, ring.name("g"))
    ring.close()
    return Opened("session_1", str(tmp_path))
