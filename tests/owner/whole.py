"""A whole owner without a session: the test holds the node's end of its socket."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sundog.config import Config
from sundog.exceptions import RaySystemError
from sundog.net.packets import Connection, make_pair
from sundog.owner.assemble import assemble, begin, dismantle, release
from sundog.owner.core import Owner
from tests.owner.fakes import ME


class FakeNode:
    """The node's end: what the owner sent, and what the test sends to it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def send(self, message: tuple[object, ...], fds: tuple[int, ...] = ()) -> None:
        self.connection.send(message, fds)

    def heard(self) -> list[tuple[Any, ...]]:
        """All that has come since the last look."""
        found: list[tuple[Any, ...]] = []
        while True:
            try:
                received = self.connection.receive()
            except BlockingIOError:
                return found
            if received is None:
                return found
            message, fds = received
            for fd in fds:
                os.close(fd)
            found.append(message)


@contextmanager
def whole_owner(
    folder: Path, config: Config | None = None, role: str = "driver"
) -> Iterator[tuple[Owner, FakeNode]]:
    """An owner as `assemble` makes it, and the node at the other end of its socket."""
    ours, theirs = make_pair()
    for name in ("shm", "rings"):
        os.makedirs(folder / name, exist_ok=True)
    session: Any = {
        "name": "s1",
        "path": str(folder),
        "shm_root": str(folder / "shm"),
        "spill_folders": [str(folder / "disk")],
        "store_bytes": 1 << 20,
    }
    shown = config or Config(record_enabled=False)
    owner = assemble(session, shown, role)
    begin(owner, ME, Connection(ours, str(folder)))
    node = FakeNode(Connection(theirs, str(folder)))
    try:
        yield owner, node
    finally:
        if owner.closed is None:
            dismantle(owner, RaySystemError("the test is over"))
        release(owner)
        theirs.close()
