"""What an owner tells of itself while other threads submit and put."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from sundog.owner.description import describe_objects, describe_tasks
from sundog.owner.rows import QUEUED, whole

ME = b"m" * 8


def test_tasks_are_told_while_another_thread_submits() -> None:
    table: dict[bytes, Any] = {}

    class Task:
        attempt, state, actor, submit_s = 0, QUEUED, None, 0.0
        extra = lane = parent = None
        fn = SimpleNamespace(name="f", function="f", shape=None)

        @property
        def id(self) -> bytes:
            table[bytes([len(table)]) * 16] = self  # as a submission would, without the lock
            return b"t" * 16

    table[b"t" * 16] = Task()
    owner: Any = SimpleNamespace(table=table, me=ME, running_calls=dict)
    assert [row["name"] for row in describe_tasks(owner)] == ["f"]


def test_objects_are_told_while_another_thread_puts_and_drops() -> None:
    ready: dict[bytes, Any] = {}

    class Sites(dict[str, str]):
        def get(self, name: str, default: Any = "") -> str:
            ready[bytes([len(ready)]) * 20] = b""  # as a put would, without the lock
            ready.pop(gone, None)
            return "here"

    kept, gone = ME + b"k" * 12, ME + b"g" * 12
    ready |= {kept: b"12345", gone: b""}
    owner: Any = SimpleNamespace(
        me=ME,
        segments=SimpleNamespace(viewed=dict),
        ready=ready,
        objects=SimpleNamespace(
            value=lambda oid: whole(ready[oid]) if oid in ready else None, drain=lambda: None
        ),
        refs=SimpleNamespace(owned={}, borrowed={}),
        table={},
        actors=SimpleNamespace(scopes=set()),
    )
    rows = describe_objects(owner, 1, "driver", Sites())
    assert [(row["object_id"], row["object_size"]) for row in rows] == [(kept.hex(), 5)]
