"""What an owner tells of itself while other threads submit and put."""

from __future__ import annotations

from typing import Any

from sundog.owner.description import describe_objects, describe_tasks
from sundog.owner.rows import Fn, Task
from tests.owner.fakes import ME, make_owner


def test_tasks_are_told_while_another_thread_submits() -> None:
    owner = make_owner()

    class Told(Task):
        """A task that is told while another is submitted, without the lock."""

        @property
        def state(self) -> int:
            owner.table[bytes([len(owner.table)]) * 16] = self
            return 1

        @state.setter
        def state(self, _: int) -> None:
            pass

    owner.table[b"t" * 16] = Told(b"t" * 16, Fn(1, "f"), None, 0.0)
    assert [row["name"] for row in describe_tasks(owner)] == ["f"]


def test_objects_are_told_while_another_thread_puts_and_drops() -> None:
    owner = make_owner()

    class Sites(dict[str, str]):
        def get(self, name: str, default: Any = "") -> str:
            owner.ready[bytes([len(owner.ready)]) * 20] = b""  # as a put would, without the lock
            owner.ready.pop(gone, None)
            return "here"

    kept, gone = ME + b"k" * 12, ME + b"g" * 12
    owner.ready |= {kept: b"12345", gone: b""}
    rows = describe_objects(owner, (), 1, "driver", Sites())
    assert [(row["object_id"], row["object_size"]) for row in rows] == [(kept.hex(), 5)]
