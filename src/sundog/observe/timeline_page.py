"""The timeline as one page of HTML that needs no network: `sundog timeline --html`.

::

    index ──► rows of slices, names, counters (JSON) ──► pages/timeline.html ──► one file

Owns the data of the page: which slices stand on which row, and what is left out when there are too many. The drawing is
in the page itself. What users named goes into the page as JSON, never as markup. Runs in the caller's process.
"""

from __future__ import annotations

import itertools
import json
import os
from typing import TYPE_CHECKING

from sundog.observe import unended
from sundog.observe.index import Index
from sundog.observe.records import base_rows, spans_where, tasks_where
from sundog.observe.timeline import TraceNumbers
from sundog.observe.trace import TraceWindow, session_bounds

if TYPE_CHECKING:
    from sundog.plain import JsonObject, SqlRow

SLICES_MAX = 400_000
_FUNCTIONS_SHOWN = 200
_COUNTERS_MAX = 2000
_PAGE = os.path.join(os.path.dirname(__file__), "pages", "timeline.html")


def page(index: Index, session: str, window: TraceWindow | None = None) -> str:
    """The page of a session.

    Args:
        index: the session's.
        session: its name, for the title.
        window: only what touches this stretch of time.
    """
    with open(_PAGE, encoding="utf-8") as file:
        template = file.read()
    text = json.dumps(_Data(index, session, window or TraceWindow()).build(), separators=(",", ":"))
    # Within <script> only "</" and "<!--" could end the data; a name may have them.
    return template.replace("__DATA__", text.replace("<", "\\u003c"))


class _Data:
    def __init__(self, index: Index, session: str, window: TraceWindow) -> None:
        self.index = index
        self.session = session
        self.window = window
        self.known = base_rows(index)
        low, high = session_bounds(index)
        self.low, self.high = max(low, window.from_s), min(high, window.to_s)
        self.names: dict[str, int] = {}
        self.rows: dict[tuple[int, int], JsonObject] = {}
        self.functions: dict[int, JsonObject] = {}
        self.left_out = 0
        self.open = 0
        self.nodes: dict[bytes, str] = {}  # labels, if there are several

    def build(self) -> JsonObject:
        self._nodes()
        self._tasks()
        self._spans()
        rows = sorted(self.rows.values(), key=_order)
        functions = sorted(self.functions.values(), key=lambda each: -each["total_us"])[:_FUNCTIONS_SHOWN]
        missed = self.index.missed()
        count = sum(each["count"] for each in self.functions.values())
        about = f"{self.session} · {count:,} tasks · {self.high - self.low:.2f} s"
        if self.open:
            about += f" · {self.open:,} more had not ended"
        if self.left_out:
            about += f" · the {self.left_out:,} shortest are not drawn: choose a window with --from and --to"
        if missed:
            about += f" · {missed:,} events are missing"
        return {
            "about": about,
            "span_us": (self.high - self.low) * 1e6,
            "names": list(self.names),
            "rows": rows,
            "functions": functions,
            "counters": self._counters(),
        }

    def _row(self, key: tuple[int, int], kind: str, pid: int, process_id: bytes) -> dict[str, object]:
        row = self.rows.get(key)
        if row is None:
            process = self.known.processes.get(process_id)
            lives = (process.actor_name or process.class_name) if process is not None else ""
            node = self.nodes.get(process.node_id, "") if process is not None and kind == "worker" else ""
            row = self.rows[key] = _row(f"{lives or kind} pid={pid}", kind, node)
        return row

    def _add(self, row: JsonObject, name: str, start: float, end: float, failed: bool, id_: str) -> int:
        number = self.names.setdefault(name, len(self.names))
        row["s"].append(round((start - self.low) * 1e6, 1))
        row["d"].append(round(max(0.0, end - start) * 1e6, 1))
        row["n"].append(number)
        row["f"].append(int(failed))
        row["i"].append(id_)
        return number

    def _nodes(self) -> None:
        """A row for each node of a session that has several: from its joining to its end."""
        there: dict[str, list[tuple[float, JsonObject]]] = {}
        for node_id, at_s, text in self.index.rows(
            "SELECT subject, at_s, json FROM facts WHERE kind = 'node' ORDER BY at_s"
        ):
            there.setdefault(node_id, []).append((at_s, json.loads(text)["row"]))
        if len(there) < 2:
            return
        last = max(at_s for looks in there.values() for at_s, _ in looks)
        if last >= self.high:  # so that the end of a node is seen
            self.high = min(last + 0.02 * (last - self.low), self.window.to_s)
        plain = len({node_id[:8] for node_id in there}) == len(there)  # Ray's fake nodes begin alike
        for number, (node_id, looks) in enumerate(there.items()):
            self.nodes[bytes.fromhex(node_id)] = label = f"node {node_id[:8] if plain else node_id[-8:]}"
            row = self.rows[-1, -1 - number] = _row(label, "node", label)
            begin, (end, final) = max(looks[0][0], self.low), looks[-1]
            gone = final["state"] == "DEAD"
            cpus = (looks[0][1].get("resources_total") or {}).get("CPU", 0)
            name = f"node with {cpus:g} CPU{'s' * (cpus != 1)}" + (
                f": {final['state_message']}" if gone else ""
            )
            lost = gone and not final.get("is_ended")
            self._add(row, name, begin, end if gone else max(self.high, begin), lost, node_id)

    def _tasks(self) -> None:
        where = self.window.attempts(self.index)
        total = self.index.one(f"SELECT count(*) FROM attempts a WHERE {where}")
        least = 0.0
        if total > SLICES_MAX:
            self.left_out = total - SLICES_MAX
            least = self.index.one(
                f"SELECT end_s - start_s FROM attempts a WHERE {where} ORDER BY 1 DESC LIMIT 1 OFFSET {SLICES_MAX}"
            )
        board = TraceNumbers()
        for task in tasks_where(self.index, self.known, f"WHERE {where} ORDER BY a.start_s"):
            start, end = task.start_s or 0.0, task.end_s or 0.0
            number = self.names.setdefault(task.name, len(self.names))
            counts = self.functions.setdefault(
                number, {"n": number, "count": 0, "failed": 0, "total_us": 0.0}
            )
            counts["count"] += 1
            counts["failed"] += not task.ok
            counts["total_us"] += (end - start) * 1e6
            if self.left_out and end - start <= least:
                continue
            lane = board.lane_for_task(task, end)
            row = self._row((board.process(task.node_id), lane), "worker", task.pid, task.worker_id)
            self._add(row, task.name, start, end, not task.ok, task.task_id.hex())
        self._running(board)

    def _running(self, board: TraceNumbers) -> None:
        """Tasks that had not ended, up to the last moment that is known."""
        last = unended.last_moment(self.index)
        for task in unended.running(self.index, self.known):
            start = task.start_s or 0.0
            if start > self.window.to_s or last < self.window.from_s:
                continue
            self.open += 1
            lane = board.lane_for_task(task, max(last, start))
            row = self._row((board.process(task.node_id), lane), "worker", task.pid, task.worker_id)
            self._add(row, f"{task.name} (runs)", start, max(last, start), False, task.task_id.hex())

    def _spans(self) -> None:
        board = TraceNumbers()
        ended = spans_where(
            self.index, self.known, f"WHERE {self.window.where('s')} ORDER BY s.start_s LIMIT {SLICES_MAX}"
        )
        open_ = [each for each in unended.waiting(self.index, self.known) if each.start_s <= self.window.to_s]
        for span in itertools.chain(ended, open_):
            process, lane = board.lane_for_call(span)
            home = self.known.processes[span.owner_id]
            kind = "driver" if home.role == "driver" else "call"
            row = self._row((-process, lane), kind, span.pid, span.owner_id)
            if kind == "call":
                row["label"] = f"waits of pid={span.pid}"
            where = f"{span.kind} {os.path.basename(span.site)}" if span.site else span.kind
            self._add(row, where, span.start_s, span.end_s, False, span.detail)

    def _counters(self) -> list[dict[str, object]]:
        found = self.index.dicts(
            "SELECT * FROM machine WHERE at_s BETWEEN ? AND ? ORDER BY at_s", self.low - 1, self.high + 1
        )
        found = found[:: max(1, len(found) // _COUNTERS_MAX)]
        if not found:
            return []
        shown = (
            ("CPU", "cpu", 1.0, lambda value: f"{value:.0%}"),
            ("memory", "memory_used", max(each["memory_total"] or 1 for each in found), _in_mb),
            ("object store", "store_used", max(max(each["store_used"] or 0 for each in found), 1), _in_mb),
        )
        return [
            {
                "name": name,
                "top": top,
                "most": words(max(each[key] or 0 for each in found)),
                "t": [round((each["at_s"] - self.low) * 1e6) for each in found],
                "v": [each[key] or 0 for each in found],
            }
            for name, key, top, words in shown
        ]


def _row(label: str, kind: str, node: str) -> JsonObject:
    return {"label": label, "kind": kind, "node": node, "s": [], "d": [], "n": [], "f": [], "i": []}


def _order(row: JsonObject) -> SqlRow:
    """Drivers first; then node by node, each above its workers."""
    return (row["kind"] != "driver", row.pop("node"), row["kind"] != "node", row["label"])


def _in_mb(size: float) -> str:
    return f"{size / 1e6:,.0f} MB"
