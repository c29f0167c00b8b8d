"""Recorded tasks and waits, and on which row of a Chrome trace each of them is drawn.

Owns: the rows that timeline and doctor work on, and the numbers of processes and threads in a trace (the JSON
array that chrome://tracing and ui.perfetto.dev open; `observe/trace.py` writes it). Refuses: reading records, files
and clocks: rows in, plain values out. Runs wherever it is called: the API, the CLI, the dashboard.

In the trace a *process* is a node and a *thread* is a worker or driver, one more row for each task that runs
beside another in the same worker (asyncio and threaded actors): slices that overlap cannot share a row.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from sundog.plain import plain

# Rows beyond a worker's first get numbers above any process id that Linux hands out.
_FIRST_EXTRA_TID = 1 << 23


@plain(frozen=True)
class TaskRow:
    """One attempt of one task. Times are seconds of one clock; None where it has not come to that yet."""

    task_id: bytes
    name: str
    submit_s: float
    start_s: float | None
    end_s: float | None
    worker_id: bytes
    pid: int
    owner_id: bytes
    ok: bool | None
    kind: str = "task"  # "task", "actor_task", "actor_creation"
    attempt: int = 0
    node_id: bytes = b""
    phases: tuple[tuple[str, float, float], ...] = ()  # (name, start, end) inside the attempt
    code: str = ""  # fingerprint of the code that ran
    cpu_s: float = 0.0
    peak_bytes: int = 0  # of memory of its own, without shared segments
    actor_id: bytes = b""
    lost: bool = False  # its process died under it
    function: str = ""  # the function's own name, if the task has another
    hidden: bool = False  # not to be listed
    lease: str = ""  # what its worker held while it ran, as JSON (`worker.setup.note_lease`)

    @property
    def status(self) -> str:
        """PENDING, RUNNING, FINISHED or FAILED."""
        if self.start_s is None:
            return "PENDING"
        if self.end_s is None:
            return "RUNNING"
        return "FINISHED" if self.ok else "FAILED"


@plain(frozen=True)
class SpanRow:
    """A stretch of time a driver or worker spent in `get`, `put`, `wait`, a transfer, a spill, …"""

    kind: str
    start_s: float
    end_s: float
    pid: int
    owner_id: bytes
    detail: str = ""
    node_id: bytes = b""
    size_bytes: int = 0  # of a put
    site: str = ""  # the line of the program


class _Lanes:
    """The rows of one worker or driver: as few as let no two slices overlap."""

    def __init__(self, first_tid: int) -> None:
        self.tids = [first_tid]
        self._busy: list[tuple[float, int]] = []
        self._free = [0]

    def take(self, start: float, end: float, board: TraceNumbers) -> int:
        while self._busy and self._busy[0][0] <= start:
            heapq.heappush(self._free, heapq.heappop(self._busy)[1])
        if not self._free:
            self.tids.append(board.extra_tid())
            self._free.append(len(self.tids) - 1)
        lane = heapq.heappop(self._free)
        heapq.heappush(self._busy, (end, lane))
        return self.tids[lane]


class TraceNumbers:
    """Which process and thread number of the trace stands for which node, worker and driver.

    Args:
        home: of a process, by its id: what lives there (the class of an actor, or ""), its pid and its node.
    """

    def __init__(self, home: Callable[[bytes], tuple[str, int, bytes]] = lambda _: ("", 0, b"")) -> None:
        self._home = home
        self._nodes: dict[int, int] = {}
        self._processes: dict[bytes, int] = {}
        self._tasks: dict[bytes, tuple[bytes, int, _Lanes]] = {}
        self._calls: dict[bytes, tuple[bytes, int, _Lanes]] = {}
        self._extra = _FIRST_EXTRA_TID

    def process(self, node_id: bytes) -> int:
        """The number that stands for a node."""
        return self._processes.setdefault(node_id, len(self._processes) + 1)

    def node_row(self, process: int) -> int:
        """The row of what a node itself does."""
        if process not in self._nodes:
            self._nodes[process] = self.extra_tid()
        return self._nodes[process]

    def extra_tid(self) -> int:
        """The number of one more row."""
        self._extra += 1
        return self._extra

    def lane_for_task(self, row: TaskRow, end: float) -> int:
        """The row of a task; tasks come in the order they began."""
        self.process(row.node_id)
        if row.worker_id not in self._tasks:
            self._tasks[row.worker_id] = (row.node_id, row.pid, _Lanes(row.pid))
        return self._tasks[row.worker_id][2].take(row.start_s or 0.0, end, self)

    def lane_for_call(self, span: SpanRow) -> tuple[int, int]:
        """The row of a get, put or wait: inside the task that calls, if its worker runs one at a time."""
        node_id, _, lanes = self._caller(span.owner_id, span.node_id, span.pid)
        return self.process(node_id), lanes.take(span.start_s, span.end_s, self)

    def row_of_owner(self, owner_id: bytes) -> tuple[int, int]:
        """The first row of a process that submits."""
        _, pid, node_id = self._home(owner_id)
        node_id, _, lanes = self._caller(owner_id, node_id, pid)
        return self.process(node_id), lanes.tids[0]

    def _caller(self, owner_id: bytes, node_id: bytes, pid: int) -> tuple[bytes, int, _Lanes]:
        if owner_id not in self._calls:
            worker = self._tasks.get(owner_id)
            if worker is None:
                self._calls[owner_id] = (node_id, pid, _Lanes(pid or self.extra_tid()))
            else:
                # Inside the task that calls, when only one runs at a time; else on a row of its own.
                alone = len(worker[2].tids) == 1
                self._calls[owner_id] = (*worker[:2], _Lanes(worker[1] if alone else self.extra_tid()))
        return self._calls[owner_id]

    def names(self) -> list[dict[str, object]]:
        """The metadata events that label and order the rows: drivers above workers."""
        out: list[dict[str, object]] = []
        for node_id, number in self._processes.items():
            label = f"node {node_id.hex()[:8]}" if node_id else "node"
            out.append(_label("process_name", number, 0, {"name": label}))
        named: set[tuple[int, int]] = set()
        for group, role in ((self._tasks, "worker"), (self._calls, "driver")):
            for owner_id, (node_id, pid, lanes) in group.items():
                inside = role == "driver" and owner_id in self._tasks
                lives = self._home(owner_id)[0]
                what = f"worker pid={pid} calls" if inside else f"{lives or role} pid={pid}" if pid else role
                for index, tid in enumerate(lanes.tids):
                    process = self.process(node_id)
                    if (process, tid) in named:
                        continue
                    named.add((process, tid))
                    text = f"{what} {owner_id.hex()[:8]}" + (f" ({index + 1})" if index else "")
                    out.append(_label("thread_name", process, tid, {"name": text}))
                    order = 0 if role == "driver" and not inside else 1
                    out.append(_label("thread_sort_index", process, tid, {"sort_index": order}))
        for process, tid in self._nodes.items():
            out.append(_label("thread_name", process, tid, {"name": "node: spills and ends of processes"}))
        return out


def _label(name: str, process: int, tid: int, args: dict[str, object]) -> dict[str, object]:
    return {"name": name, "cat": "__metadata", "ph": "M", "ts": 0, "pid": process, "tid": tid, "args": args}
