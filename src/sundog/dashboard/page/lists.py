"""Lists: tasks, actors, objects, workers, nodes, events. Every row leads to its reason.

Owns which columns each list has. Runs in the head process' event loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nicegui import ui

from sundog.dashboard.facts import Fact
from sundog.dashboard.page.frame import PageFrame, ask, live
from sundog.dashboard.page.tables import Column, DataTable, clock, number, seconds, short, size
from sundog.dashboard.source import ANY, ENDED, FAILED, UNFINISHED, Cells, TablePage, Wanted, page_of
from sundog.observe.words import in_units
from sundog.printable import printable

if TYPE_CHECKING:
    from sundog.observe.activity import Activity

_WHY = "/why?id="
_MS = 1000.0

TASKS = (
    Column("task_id", "id", short, link=_WHY, sortable=False),
    Column("name", "function", link="/tasks?text="),
    Column("state", "state", state=True, sortable=False),
    Column("started", "started", clock),
    Column("queued", "waited", seconds, right=True),
    Column("duration", "ran", seconds, right=True),
    Column("cpu", "CPU", seconds, right=True),
    Column("memory", "peak memory", size, right=True),
    Column("pid", "pid", right=True, link="/workers?text="),
    Column("attempt", "attempt", right=True),
)


def tasks(frame: PageFrame, wanted: Wanted) -> None:
    """All tasks and calls."""
    DataTable(
        frame,
        "/tasks",
        TASKS,
        frame.source.tasks,
        wanted,
        states=(ANY, UNFINISHED, ENDED, FAILED),
        empty="No task yet, or none that matches.",
    )


def _at(value: object) -> str:
    at_ms = number(value)
    return clock(at_ms / _MS) if at_ms else ""


def _cause(value: object) -> str:
    """The reason of an actor's death, in its first line."""
    context: dict[str, object] = next(iter(value.values()), {}) if isinstance(value, dict) else {}
    return printable(str(context.get("error_message", "")).strip().partition("\n")[0])


def _amounts(value: object) -> str:
    pairs = value.items() if isinstance(value, dict) else ()
    return ", ".join(
        f"{name} {in_units(int(amount)) if 'memory' in name else f'{amount:g}'}"
        for name, amount in pairs
        if not str(name).startswith("node:")
    )


KINDS: dict[str, tuple[Column, ...]] = {
    "actors": (
        Column("actor_id", "id", short, link=_WHY),
        Column("class_name", "class"),
        Column("name", "name"),
        Column("state", "state", state=True),
        Column("pid", "pid", right=True, link="/workers?text="),
        Column("num_restarts", "restarts", right=True),
        Column("call_site", "made at"),
        Column("death_cause", "why it died", _cause, sortable=False),
    ),
    "nodes": (
        Column("node_id", "id", short),
        Column("node_name", "name"),
        Column("state", "state", state=True),
        Column("is_head_node", "head"),
        Column("resources_total", "resources", _amounts, sortable=False),
        Column("start_time_ms", "since", _at),
        Column("state_message", "told"),
    ),
}


def listing(frame: PageFrame, kind: str, wanted: Wanted) -> None:
    """Rows of the state API."""
    empty = {"actors": "No actor yet."}.get(kind, "Nothing here.")
    DataTable(
        frame, f"/{kind}", KINDS[kind], lambda what: frame.source.listing(kind, what), wanted, empty=empty
    )


# ---------------------------------------------------------------------- workers
def short_line(line: str) -> str:
    """A line of code without its folder, which would push the other columns out of sight.

    >>> short_line("/home/me/my work/train.py:12 resize")
    'train.py:12 resize'
    """
    place, colon, rest = line.rpartition(":")
    return printable(f"{place.rpartition('/')[2]}{colon}{rest}")


WORKERS = (
    Column("pid", "pid", right=True, link="/stacks?text="),
    Column("worker_id", "id", short, link=_WHY),
    Column("what", "process"),
    Column("state", "state", state=True),
    Column("runs", "runs", link=_WHY, link_key="task"),
    Column("for", "for", seconds, right=True),
    Column("line", "current line", lambda value: short_line(str(value or ""))),
    Column("cpu", "CPU", lambda value: "" if value is None else f"{value:.0%}", right=True),
    Column("own", "own memory", size, right=True),
    Column("shared", "shared", size, right=True),
    Column("told", "how it ended", wraps=True),
    Column("log", "log", link="/logs?id=", link_key="worker_id", sortable=False),
)


def workers(frame: PageFrame, wanted: Wanted) -> None:
    """All processes: what they run, their processor time and memory, their current line."""
    source = frame.source

    def fetch(what: Wanted) -> TablePage:
        rows = source.listing("workers", Wanted(most=10_000)).rows
        return page_of(worker_rows(rows, source.activity(), source.path), what)

    DataTable(frame, "/workers", WORKERS, fetch, wanted, empty="No process yet.")


def worker_rows(listed: Sequence[Cells], activity: Activity, session_path: str) -> list[Cells]:
    """The state API's rows, with what each process does now."""
    from sundog import events

    seen = {each.who.process_id: each for each in activity.workers}
    found: list[Cells] = []
    for row in listed:
        now = seen.get(str(row["worker_id"]))
        call = now.calls[0] if now is not None and now.calls else None
        sample = (
            events.last_sample(f"{session_path}/rings/{row['worker_id']}.ring") if call is not None else None
        )
        is_same = sample is not None and call is not None and sample.task_id.hex() == call.task_id
        found.append(
            {
                "key": row["worker_id"],
                "pid": row["pid"],
                "worker_id": row["worker_id"],
                "what": now.who.actor_class or now.who.kind
                if now is not None
                else str(row["worker_type"]).lower(),
                "state": (row.get("state") or "alive") if row["is_alive"] else "DEAD",
                "runs": call.name if call is not None else "",
                "task": call.task_id if call is not None else "",
                "for": max(0.0, activity.at_s - call.start_s) if call is not None and call.start_s else None,
                "line": sample.line if sample is not None and is_same else "",
                "cpu": now.core_share if now is not None else None,
                "own": now.own_bytes if now is not None else None,
                "shared": max(0, now.rss_bytes - now.own_bytes) if now is not None else None,
                "told": row.get("exit_detail") or "",
                "log": "log",
            }
        )
    return sorted(found, key=lambda each: each["state"] == "DEAD")


# ---------------------------------------------------------------------- objects
OBJECTS = (
    Column("object_id", "id", short, link=_WHY),
    Column("size", "size", size, right=True),
    Column("where", "where"),
    Column("kind", "held as"),
    Column("pid", "held by", right=True, link="/workers?text="),
    Column("site", "made at"),
    Column("age", "since", seconds, right=True),
)


def objects(frame: PageFrame, wanted: Wanted) -> None:
    """Which process holds which object, and where memory is."""
    source = frame.source
    sums = ui.html("", sanitize=False).classes("sd-cards").props("data-memory")

    def fetch(what: Wanted) -> TablePage:
        picture = source.memory()
        if picture is None:
            return source.listing("objects", what)
        rows = [
            {
                "key": f"{each.reference.object_id}-{each.who.pid}-{each.reference.kind}",
                "object_id": each.reference.object_id,
                "size": each.size_bytes if each.size_bytes >= 0 else None,
                "where": each.where,
                "kind": each.reference.kind.lower().replace("_", " "),
                "pid": each.who.pid,
                "site": each.call_site or each.origin,
                "age": each.age_s,
            }
            for each in picture.holdings
        ]
        return page_of(rows, what)

    async def update() -> None:
        picture = await ask(source.memory)
        if picture is None:
            return
        cards = [
            ("in shared memory", in_units(picture.store.get("used_bytes", 0))),
            ("limit", in_units(picture.store.get("limit_bytes", 0))),
            ("spilled", in_units(picture.store.get("spilled_bytes", 0))),
            ("own memory of all processes", in_units(sum(each.own_bytes for each in picture.processes))),
        ]
        if picture.silent:
            cards.append(("processes without an answer", str(len(picture.silent))))
        sums.set_content(
            "".join(
                f"<div class='sd-card'><div class='n'>{n}</div><div class='l'>{label}</div></div>"
                for label, n in cards
            )
        )

    live(frame, update, 2.0)
    DataTable(frame, "/objects", OBJECTS, fetch, wanted, empty="No process holds a reference to an object.")


# ---------------------------------------------------------------------- events
EVENTS = (
    Column("at", "when", clock),
    Column("kind", "what"),
    Column("subject", "whose", short, link=_WHY),
    Column("text", "told", sortable=False),
)


def events(frame: PageFrame, wanted: Wanted) -> None:
    """Kills, deaths, restarts, spills."""

    def fetch(what: Wanted) -> TablePage:
        facts = frame.source.read_facts()
        rows = [event_row(number, fact) for number, fact in enumerate(facts.events)]
        return page_of(rows[::-1], what)

    DataTable(frame, "/events", EVENTS, fetch, wanted, empty="Nothing has happened yet.")


def event_row(number: int, fact: Fact) -> Cells:
    """A fact of the node in words."""
    data, row = fact.data, fact.data.get("row") or {}
    kind, text = fact.kind, ""
    if kind == "worker":
        who = "driver" if row.get("worker_type") == "DRIVER" else "worker"
        kind = f"{who} ended"
        text = f"pid {row.get('pid')}: {row.get('exit_detail') or data.get('reason') or data.get('cause')}"
        if data.get("last_line"):
            text += f" · last seen at {data['last_line']}"
    elif kind == "actor":
        kind = f"actor {str(row.get('state', '')).lower().replace('_', ' ')}"
        text = f"{row.get('class_name', '')} {row.get('name') or ''}".strip()
        cause = _cause(row.get("death_cause"))
        text += f": {cause}" if cause else ""
    elif kind == "job":
        kind, text = f"job {str(row.get('status', '')).lower()}", str(row.get("entrypoint") or "")
    elif kind in ("spill", "restore"):
        kind = {"spill": "spilled", "restore": "restored"}[kind]
        count = int(data.get("count", 1))
        took = seconds(data.get("seconds", 0.0))
        text = f"{count} object{'s' * (count != 1)}, {in_units(int(data.get('bytes', 0)))} in {took}"
    elif kind == "node":
        kind, text = f"node {str(row.get('state', '')).lower()}", _amounts(row.get("resources_total"))
    subject = fact.subject if fact.kind in ("worker", "actor", "job") else ""
    return {"key": number, "at": fact.at_s, "kind": kind, "subject": subject, "text": printable(text)}
