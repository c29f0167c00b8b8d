"""The files of processes that are dead: the newest stay to be read, older ones go.

::

    death ──► Remains ──► ring and names: removed once they are in the segments (node/records.py)
                 ├──► metrics of the user: added up (observe/metric_files.py)
                 └──► logs: kept of the newest `dead_process_files` that ended as they should, and of as many that did
                      not, within `dead_process_bytes` all together; then removed, the oldest first

A program may make an actor a second for weeks, and each leaves a ring and two logs. Owns which of them go, and the
removal. Nothing goes before the node has read it to its end (records, lines for the driver), nor within `_GRACE_S`: a
caller reads the ring of a dead actor to know what it had begun. The files of a running session only; folders of
ended ones: `node/retention.py`. Runs on the node's only thread, a portion each second.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from typing import TYPE_CHECKING

from sundog.node.rows import Process
from sundog.plain import NamedTuple

if TYPE_CHECKING:
    from typing import Protocol

    from sundog.node.interfaces import NodeBasics
    from sundog.node.logs import LogTails
    from sundog.node.records import Records

    class _Node(NodeBasics, Protocol):
        """The node, with what is still read of dead processes."""

        logs: LogTails
        records: Records


_GRACE_S = 2.0
_PORTION = 256  # number of processes handled at a time: about 10 ms of work


class LeftFiles(NamedTuple):
    """What a dead process left."""

    process_id: bytes
    died_at: float
    size_bytes: int
    logs: tuple[str, ...]


class Remains:
    """The dead whose files are still there, in the order of their deaths."""

    def __init__(self, node: _Node) -> None:
        self.node = node
        self._new: deque[tuple[LeftFiles, bool]] = deque()
        # key: whether the process failed
        self._kept: dict[bool, deque[LeftFiles]] = {False: deque(), True: deque()}
        self._bytes = 0

    def add(self, process: Process, *, failed: bool) -> None:
        """A process is gone."""
        logs = tuple(path for path in (process.out_path, process.err_path) if path)
        self._new.append((LeftFiles(process.process_id, self.node.now(), 0, logs), failed))

    def tick(self) -> None:
        """Once a second: weigh those that are read, and remove the oldest beyond the limits."""
        late = self.node.now() - _GRACE_S
        for _ in range(min(len(self._new), _PORTION)):
            left, failed = self._new[0]
            if left.died_at > late or self._is_read_on(left):
                break
            self._new.popleft()
            self._remove_ring(left)
            left = left._replace(size_bytes=sum(map(_size, self._files(left))))
            self._kept[failed].append(left)
            self._bytes += left.size_bytes
        most, most_bytes = self.node.config.dead_process_files, self.node.config.dead_process_bytes
        for _ in range(_PORTION):
            over = [kept for kept in self._kept.values() if len(kept) > most]
            if not over and self._bytes > most_bytes:
                # Remove files of processes that ended normally first: people look for the files of failed
                # ones.
                over = [kept for kept in self._kept.values() if kept]
            if not over:
                return
            self._remove(over[0].popleft())

    def _is_read_on(self, left: LeftFiles) -> bool:
        return self.node.logs.follows(left.process_id) or self.node.records.reads(left.process_id)

    def _remove(self, left: LeftFiles) -> None:
        self._bytes -= left.size_bytes
        for path in self._files(left):
            with contextlib.suppress(OSError):
                os.unlink(path)

    def _remove_ring(self, left: LeftFiles) -> None:
        self.node.records.forget(left.process_id)
        ring = self.node.records.ring(left.process_id)
        for path in (ring, f"{ring}.names"):
            with contextlib.suppress(OSError):
                os.unlink(path)
        session = self.node.session["path"]
        if os.path.exists(f"{session}/metrics/{left.process_id.hex()}.metrics"):
            from sundog.observe import metric_files

            with contextlib.suppress(OSError):
                metric_files.fold(session, left.process_id)

    def _files(self, left: LeftFiles) -> list[str]:
        found = []
        for log in left.logs:
            found.append(log)
            number = 1
            while os.path.exists(f"{log}.{number}"):
                found.append(f"{log}.{number}")
                number += 1
        if left.logs:
            found.append(f"{os.path.splitext(left.logs[0])[0]}.stack")
        return found


def _size(path: str) -> int:
    try:
        return os.stat(path).st_blocks * 512
    except OSError:
        return 0
