"""A session's records as a Chrome trace, written as it is read: a million tasks need no memory for it.

::

    index ──rows in the order they began──► pieces of JSON ──► file: chrome://tracing, ui.perfetto.dev

Owns what is drawn where: tasks on the row of their worker, gets and waits inside them, what a driver does on rows of
its own, the node's spills and the ends of processes, arrows from submission to run and from run to get, counters of the
machine. Which row a slice gets is `observe.timeline`'s. Runs in the caller's process.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from functools import lru_cache

from sundog.observe import unended, zones
from sundog.observe.index import Index, Progress, no_progress
from sundog.observe.records import SessionRows, base_rows, spans_where, tasks_where
from sundog.observe.sites import site_of
from sundog.observe.timeline import SpanRow, TaskRow, TraceNumbers
from sundog.plain import JsonObject, plain

_US = 1_000_000
_PHASES_MAX = 20_000  # tasks whose time before the run is drawn: beyond, a viewer has no room for it
_PHASE_S = 1e-3
_SITES_MAX = 50_000


@plain(frozen=True)
class TraceWindow:
    """A stretch of time, in seconds since 1970; what touches it is drawn."""

    from_s: float = 0.0
    to_s: float = 1e12

    def where(self, alias: str) -> str:
        """The condition in SQL."""
        return f"{alias}.end_s >= {self.from_s!r} AND {alias}.start_s <= {self.to_s!r}"

    def attempts(self, index: Index) -> str:
        """The condition in SQL on attempts `a` that ran."""
        near = zones.during(index.db, self.from_s, self.to_s)
        return f"{near} AND {self.where('a')} AND NOT a.flags & 32"


def session_bounds(index: Index) -> tuple[float, float]:
    """When the first thing that was recorded began, and when the last one ended; (0, 0) of nothing."""
    found = index.rows(
        "SELECT min(low), max(high) FROM (SELECT min(submit_s) AS low, max(end_s) AS high FROM zones UNION ALL "
        "SELECT min(start_s), max(end_s) FROM spans)"
    )[0]
    low, high = found[0] or 0.0, found[1] or 0.0
    rows = base_rows(index)
    open_ = [row.start_s or 0.0 for row in unended.running(index, rows)]
    open_ += [span.start_s for span in unended.waiting(index, rows)]
    if open_:
        low, high = low or min(open_), max(high, unended.last_moment(index), *open_)
    return low, high


def pieces(
    index: Index, window: TraceWindow | None = None, progress: Progress = no_progress
) -> Iterator[str]:
    """The trace as text, piece by piece; all of them together are one JSON array.

    Args:
        index: the session's.
        window: only what touches this stretch of time.
        progress: called with how many tasks are drawn, and how many there are in all.
    """
    trace = _Trace(index, window or TraceWindow())
    yield "[\n"
    first = True
    for text in trace.events(progress):
        yield text if first else ",\n" + text
        first = False
    yield "\n]\n"


class _Trace:
    def __init__(self, index: Index, window: TraceWindow) -> None:
        self.index = index
        self.window = window
        self.rows: SessionRows = base_rows(index)
        self.board = TraceNumbers(self._home)
        self.total = index.one(f"SELECT count(*) FROM attempts a WHERE {window.attempts(index)}")
        awaited = index.db.execute(
            f"SELECT DISTINCT object FROM spans s WHERE kind = 4 AND {window.where('s')}"
        )
        self.awaited = {task for (task,) in awaited}
        self.ran: dict[bytes, tuple[int, int, float]] = {}
        self.phases = self.total <= _PHASES_MAX

    def events(self, progress: Progress) -> Iterator[str]:
        yield from self._tasks(progress)
        yield from self._running()
        yield from self._spans()
        yield from self._waiting()
        yield from self._facts()
        yield from self._counters()
        for event in self.board.names():
            yield json.dumps(event)

    def _home(self, process_id: bytes) -> tuple[str, int, bytes]:
        process = self.rows.processes.get(process_id)
        if process is None:
            return "", 0, b""
        return process.actor_name or process.class_name, process.pid, process.node_id

    # ------------------------------------------------------------------ tasks
    def _tasks(self, progress: Progress) -> Iterator[str]:
        rest = f"WHERE {self.window.attempts(self.index)} ORDER BY a.start_s"
        for done, row in enumerate(tasks_where(self.index, self.rows, rest)):
            if not done & 4095:
                progress(done, self.total)
            yield from self._task(row)

    def _task(self, row: TaskRow) -> Iterator[str]:
        board, start, end = self.board, row.start_s or 0.0, row.end_s or 0.0
        tid = board.lane_for_task(row, end)
        process = board.process(row.node_id)
        name, id_ = _quoted(row.name), row.task_id.hex()
        if row.task_id in self.awaited:
            self.ran[row.task_id] = (process, tid, end)
        site = site_of(self.index, row.task_id, row.name) if self.total <= _SITES_MAX else ""
        args = (
            f'"task_id":"{id_}","attempt":{row.attempt},"status":"{row.status}","submitter":"{row.owner_id.hex()}",'
            f'"queued_ms":{(start - row.submit_s) * 1000:.3f},"cpu_ms":{row.cpu_s * 1000:.3f},'
            f'"peak_memory_bytes":{row.peak_bytes}'
        )
        if site:
            args += f',"call_site":{_quoted(site)}'
        red = ',"cname":"terrible"' if not row.ok else ""  # Chrome's name for red
        at = f'"ts":{start * _US:.3f},"pid":{process},"tid":{tid}'
        yield (
            f'{{"name":{name},"cat":"{row.kind}","ph":"X","dur":{max(0.0, end - start) * _US:.3f},{at}{red},'
            f'"args":{{{args}}}}}'
        )
        from_process, from_tid = board.row_of_owner(row.owner_id)
        origin = f'"ts":{row.submit_s * _US:.3f},"pid":{from_process},"tid":{from_tid}'
        flow = f'"name":"submit","cat":"flow","id":"{id_}:{row.attempt}"'
        yield f'{{"name":{_quoted("submit " + row.name)},"cat":"submit","ph":"X","dur":1,{origin},"args":{{}}}}'
        yield f'{{{flow},"ph":"s",{origin}}}'
        yield f'{{{flow},"ph":"f","bp":"e",{at}}}'
        if self.phases and start - row.submit_s > _PHASE_S:
            yield from self._before_run(row, from_process)

    def _before_run(self, row: TaskRow, process: int) -> Iterator[str]:
        """What a task waited for, as slices one inside the other on a track of its own."""
        from sundog.observe.phases import phases_of

        id_ = f'"cat":"waiting","id":"{row.task_id.hex()}:{row.attempt}","pid":{process},"tid":0'
        slices = [(f"{row.name} waits", row.submit_s, row.start_s or 0.0)]
        slices += [(f"for {each.waits_for}", each.start_s, each.end_s) for each in phases_of(self.index, row)]
        for name, start, _ in slices:
            yield f'{{"name":{_quoted(name)},"ph":"b","ts":{start * _US:.3f},{id_}}}'
        for name, _, end in reversed(slices):
            yield f'{{"name":{_quoted(name)},"ph":"e","ts":{end * _US:.3f},{id_}}}'

    def _running(self) -> Iterator[str]:
        """Tasks that had begun and not ended when the records were read, up to the last moment that is known."""
        last = unended.last_moment(self.index)
        for row in unended.running(self.index, self.rows):
            start = row.start_s or 0.0
            if start > self.window.to_s or last < self.window.from_s:
                continue
            end = max(last, start)
            event = {
                "name": row.name,
                "cat": row.kind,
                "ph": "X",
                "ts": start * _US,
                "dur": (end - start) * _US,
                "pid": self.board.process(row.node_id),
                "tid": self.board.lane_for_task(row, end),
                "args": {"task_id": row.task_id.hex(), "status": "RUNNING"},
            }
            yield json.dumps(event)

    def _waiting(self) -> Iterator[str]:
        """Gets and waits that had not ended, up to the last moment that is known."""
        for span in unended.waiting(self.index, self.rows):
            if span.start_s > self.window.to_s or span.end_s < self.window.from_s:
                continue
            process, tid = self.board.lane_for_call(span)
            args = {"object": span.detail, "call_site": span.site, "status": "not ended"}
            slice_ = {"name": span.kind, "cat": "driver", "ph": "X", "ts": span.start_s * _US, "args": args}
            yield json.dumps({**slice_, "dur": (span.end_s - span.start_s) * _US, "pid": process, "tid": tid})

    # ------------------------------------------------------------------ gets, puts and waits
    def _spans(self) -> Iterator[str]:
        for span in spans_where(
            self.index, self.rows, f"WHERE {self.window.where('s')} ORDER BY s.start_s, -s.end_s"
        ):
            process, tid = self.board.lane_for_call(span)
            args: dict[str, object] = {"object": span.detail}
            if span.size_bytes:
                args["bytes"] = span.size_bytes
            if span.site:
                args["call_site"] = span.site
            at = {"ts": span.start_s * _US, "pid": process, "tid": tid}
            slice_ = {"name": span.kind, "cat": "driver", "ph": "X", "dur": (span.end_s - span.start_s) * _US}
            yield json.dumps({**slice_, **at, "args": args})
            yield from self._got(span, process, tid)

    def _got(self, span: SpanRow, process: int, tid: int) -> Iterator[str]:
        """An arrow from the run to the get that waited for it."""
        ran = self.ran.get(bytes.fromhex(span.detail)) if span.kind == "get" else None
        if ran is None or not span.start_s <= ran[2] <= span.end_s:
            return
        flow = {"name": "result", "cat": "flow", "id": f"{span.detail}:get:{span.start_s}"}
        yield json.dumps({**flow, "ph": "s", "ts": ran[2] * _US - 0.5, "pid": ran[0], "tid": ran[1]})
        yield json.dumps(
            {**flow, "ph": "f", "bp": "e", "ts": span.end_s * _US - 0.5, "pid": process, "tid": tid}
        )

    # ------------------------------------------------------------------ the node and the machine
    def _facts(self) -> Iterator[str]:
        found = self.index.rows(
            "SELECT at_s, kind, subject, node_id, json FROM facts WHERE kind IN ('spill', 'restore', 'worker', 'node') "
            "AND at_s BETWEEN ? AND ? ORDER BY at_s",
            self.window.from_s,
            self.window.to_s,
        )
        for at_s, kind, subject, node_id, text in found:
            facts = json.loads(text)
            row = facts.get("row", {})
            with contextlib.suppress(ValueError, TypeError):  # of a damaged file
                node_id = bytes.fromhex(row.get("node_id") or "") or node_id
            process = self.board.process(node_id)
            if kind == "node":
                if row.get("is_head_node"):
                    continue
                event = _node_event(row, at_s)
            elif kind == "worker":
                if row.get("exit_type") in (None, "INTENDED_SYSTEM_EXIT"):
                    continue
                args = {"process": subject, "pid": row.get("pid"), "why": row.get("exit_detail")}
                name = f"process {row.get('pid')} ended: {row.get('exit_type')}"
                event = {"name": name, "cat": "death", "ph": "i", "s": "g", "ts": at_s * _US, "args": args}
            else:
                seconds = float(facts.get("seconds", 0.0))
                args = {"bytes": facts.get("bytes"), "objects": facts.get("count", 1), "where": subject}
                event = {
                    "name": kind,
                    "cat": "store",
                    "ph": "X",
                    "ts": (at_s - seconds) * _US,
                    "dur": seconds * _US,
                }
                event["args"] = args
            yield json.dumps({**event, "pid": process, "tid": self.board.node_row(process)})

    def _counters(self) -> Iterator[str]:
        found = self.index.dicts(
            "SELECT * FROM machine WHERE at_s BETWEEN ? AND ? ORDER BY at_s",
            self.window.from_s,
            self.window.to_s,
        )
        for each in found:
            place = {"ph": "C", "ts": each["at_s"] * _US, "pid": self.board.process(each["node_id"])}
            yield json.dumps({"name": "CPU %", **place, "args": {"busy": round((each["cpu"] or 0) * 100, 1)}})
            yield json.dumps(
                {"name": "memory MB", **place, "args": {"used": (each["memory_used"] or 0) / 1e6}}
            )
            yield json.dumps(
                {"name": "object store MB", **place, "args": {"used": (each["store_used"] or 0) / 1e6}}
            )


def _node_event(row: JsonObject, at_s: float) -> JsonObject:
    """A node that joined, or is gone."""
    short = row["node_id"][:8]
    name = f"node {short} is gone" if row["state"] == "DEAD" else f"node {short} joined"
    args = {"node": row["node_id"], "why": row["state_message"], "resources": row["resources_total"]}
    return {"name": name, "cat": "node", "ph": "i", "s": "g", "ts": at_s * _US, "args": args}


@lru_cache(maxsize=4096)
def _quoted(text: str) -> str:
    return json.dumps(text)
