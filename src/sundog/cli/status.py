"""`sundog status`: what a running session has, runs, and waits for, and why it waits.

Owns the page; the figures come from the session's node by one question (`engines.sessions.request`).
`render` is pure: the answer in, text out. Runs in the terminal's process, main thread.

The answer is a dictionary: node (id), uptime_s, resources {total, available}, nodes (one entry each), workers and
actors (each a count by state), drivers (one entry each), pending [{shape, count, waited_s, why}], store {name: figure},
dead_actors [{class_name, actor_id, ago_s, why}]; the command adds tasks: rows of the state API that have not ended.
What is piped is one row a line, however long it is.
"""

import json
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

import click

from sundog.cli import exits, rows
from sundog.observe.words import in_units, in_words
from sundog.plain import as_dict
from sundog.printable import printable
from sundog.wire.requests import ListRows, Status

if TYPE_CHECKING:
    from rich.console import RenderableType

    from sundog.engines.sessions import SessionInfo
    from sundog.observe.activity import Activity, WorkerActivity
    from sundog.observe.sessions import Opened
    from sundog.wire.status import (
        DeadActorRow,
        JobFigures,
        LearnedFigures,
        NodeRow,
        PendingRow,
        ResourceFigures,
        SessionStatus,
    )

    class StatusPage(SessionStatus, total=False):
        """The node's answer, and what the command adds to it."""

        tasks: list[dict[str, object]]
        functions: list[dict[str, object]]
        processes: list[dict[str, object]]


# Resources that are amounts of memory: shown in units, the others as numbers.
_IN_BYTES = ("memory", "object_store_memory")
_STATES = {
    "PENDING_ARGS_AVAIL": "its arguments",
    "PENDING_NODE_ASSIGNMENT": "a worker",
    "SUBMITTED_TO_WORKER": "its turn",
    "PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY": "its turn",
}
_SHOWN_MAX = 20
_PATIENCE_S = 1.0
_BETWEEN_S = 0.5
_PIPE_WIDTH = 100_000  # rich wraps by width, not by line: no row is as long as this


def render(info: "SessionInfo", answer: "StatusPage") -> "list[RenderableType]":
    """The page for one session, as things that rich can print."""
    from rich.table import Table
    from rich.text import Text

    counts = (
        _count(answer.get("drivers", ()), "driver"),
        _count(answer.get("workers", ()), "worker"),
        _count(answer.get("actors", ()), "actor"),
    )
    parts: list[RenderableType] = [
        Text.assemble(
            (f"Session {printable(info.name)}", "bold"),
            f"  up {in_words(float(answer.get('uptime_s', 0.0)))}, node {answer.get('node', '?')}, ",
            f"pid {info.node_pid}",
        ),
        Text(f"  {printable(info.path)}", style="dim"),
        Text("  " + ", ".join(counts)),
    ]
    none: ResourceFigures = {"total": {}, "available": {}}
    resources = answer.get("resources", none)
    table = Table("resource", "used", "of", title="Resources", title_justify="left", box=None)
    for name, total in sorted(resources["total"].items()):
        if name.startswith("node:"):
            continue  # a marker by which tasks ask for this node, not a resource that can run out
        used = total - resources["available"].get(name, 0.0)
        table.add_row(Text(printable(name)), _amount(name, used), _amount(name, total))
    parts.append(table)
    parts.extend(_nodes(answer.get("nodes", ())))
    parts.extend(_jobs(answer.get("jobs", ())))
    parts.extend(_tasks(answer.get("tasks", ()), time.time()))
    parts.append(_waiting(answer.get("pending", ())))
    parts.extend(_dead(answer.get("dead_actors", ())))
    parts.extend(Text(line) for line in _learned(answer.get("learned", {})))
    store = answer.get("store", {})
    if store:
        figures = ", ".join(_figure(name, value) for name, value in store.items())
        parts.append(Text(f"Object store: {figures}"))
    return parts


def _nodes(rows: "Sequence[NodeRow]") -> "list[RenderableType]":
    """The nodes of the session; nothing while it never had more than one."""
    from rich.table import Table
    from rich.text import Text

    if len(rows) < 2:
        return []
    table = Table(
        "node", "state", "pid", "CPUs", "resources", "labels", title="Nodes", title_justify="left", box=None
    )
    for row in rows:
        total, free = row["total"], row["available"]
        others = [
            name for name in sorted(total) if name not in ("CPU", *_IN_BYTES) and not name.startswith("node:")
        ]
        used = {
            name: f"{total[name] - free.get(name, 0.0):g} of {total[name]:g}"
            for name in ("CPU", *others)
            if name in total
        }
        cells = (
            row["node_id"][:8] + (" (head)" if row["is_head_node"] else ""),
            f"{row['state']}: {row['why']}" if row["why"] else row["state"],
            str(row["pid"] or "-"),
            used.pop("CPU", "0" if row["state"] != "DEAD" else "-"),
            ", ".join(f"{name} {amount}" for name, amount in used.items()) or "-",
            ", ".join(
                f"{name}={value}" for name, value in sorted(row["labels"].items()) if name != "ray.io/node-id"
            )
            or "-",
        )
        table.add_row(*[Text(printable(cell)) for cell in cells])
    return [table]


def _jobs(rows: "Sequence[JobFigures]") -> "list[RenderableType]":
    """How jobs share the session; nothing while there is only one, and that without a limit."""
    from rich.table import Table
    from rich.text import Text

    if len(rows) < 2 and not any(row["memory_limit"] or row["object_store_limit"] for row in rows):
        return []
    columns = (
        "job",
        "CPUs",
        "at most",
        "weight",
        "workers",
        "waiting",
        "memory",
        "at most",
        "objects",
        "at most",
    )
    table = Table(*columns, title="Jobs that share the session", title_justify="left", box=None)
    for row in rows:
        limit = f"{row['cpu_limit']:g}" if row["cpu_limit"] else "-"
        cells = (
            row["tenant"],
            f"{row['cpus']:g}",
            limit,
            f"{row['weight']:g}",
            str(row["leases"]),
            str(row["waiting"]),
            in_units(row["memory"]),
            in_units(row["memory_limit"]) if row["memory_limit"] else "-",
            in_units(row["object_store"]),
            in_units(row["object_store_limit"]) if row["object_store_limit"] else "-",
        )
        table.add_row(*[Text(printable(cell)) for cell in cells])
    notes = [
        f"  {row['tenant']}: {row['held_by']['no_group']}." for row in rows if row["held_by"].get("no_group")
    ]
    return [table, *[Text(printable(note), style="dim") for note in notes]]


def _learned(learned: "LearnedFigures") -> list[str]:
    """Which packages new workers find loaded, and which they do not."""
    lines = []
    if names := ", ".join(learned.get("packages", ())):
        size = in_units(int(learned.get("bytes", 0)))
        lines.append(f"New workers start with {names} loaded: {size}, shared by all of them.")
    for name, why in sorted(learned.get("refused", {}).items()):
        lines.append(f"{name} is loaded by each worker that needs it: {why}.")
    return [printable(line) for line in lines]


def _tasks(rows: Sequence[Mapping[str, object]], now: float) -> "list[RenderableType]":
    """What runs now, and what waits for something else than resources: by name, the oldest first."""
    from rich.table import Table
    from rich.text import Text

    parts: list[RenderableType] = []
    for title, began in (("Running", True), ("Not begun", False)):
        groups: dict[tuple[str, str], list[float]] = {}
        for row in rows:
            if (row["state"] == "RUNNING") == began:
                since_ms = row.get("start_time_ms") if began else row.get("creation_time_ms")
                since_s = since_ms / 1000 if isinstance(since_ms, int | float) else 0.0
                state = str(row["state"])
                where = f"pid {row['worker_pid']}" if began else _STATES.get(state, state)
                groups.setdefault((str(row["name"]), where), []).append(now - since_s)
        if not groups:
            continue
        table = Table(
            "what",
            "where" if began else "waits for",
            "how many",
            "since",
            title=title,
            title_justify="left",
            box=None,
        )
        found = sorted(groups.items(), key=lambda item: -max(item[1]))
        for (name, where), ages in found[:_SHOWN_MAX]:
            cells = (name, where, str(len(ages)), in_words(max(0.0, max(ages))))
            table.add_row(*[Text(printable(cell)) for cell in cells])
        parts.append(table)
        if len(found) > _SHOWN_MAX:
            parts.append(Text(f" … and {len(found) - _SHOWN_MAX} more. See: sundog list tasks"))
    return parts


def _dead(actors: "Sequence[DeadActorRow]") -> "list[RenderableType]":
    from rich.table import Table
    from rich.text import Text

    if not actors:
        return []
    table = Table(
        "actor", "id", "ago", "why", title="Dead actors, the last first", title_justify="left", box=None
    )
    for actor in actors:
        lines = str(actor["why"]).strip().splitlines() or [""]
        why = lines[0] if len(lines) == 1 else f"{lines[0]} … {lines[-1]}"
        cells = (actor["class_name"], actor["actor_id"], in_words(float(actor["ago_s"])), why)
        table.add_row(*[Text(printable(str(cell))) for cell in cells])
    return [table]


def _waiting(pending: "Sequence[PendingRow]") -> "RenderableType":
    from rich.table import Table
    from rich.text import Text

    if not pending:
        return Text("Nothing waits for resources.")
    table = Table(
        "asks for", "how many", "waits since", "why", title="Waiting", title_justify="left", box=None
    )
    for demand in pending:
        # In Ray's form of a demand: programs search for such a line in the output of `status`.
        asked = {name: float(amount) for name, amount in dict(demand["shape"]).items()}
        row = (f"{asked}:", str(demand["count"]), in_words(float(demand["waited_s"])), str(demand["why"]))
        table.add_row(*[Text(printable(cell)) for cell in row])
    return table


def _count(value: "Mapping[str, int] | Sequence[object]", kind: str) -> str:
    states = value if isinstance(value, Mapping) else {}
    # Dead actors are shown, but do not count among the running ones.
    count = sum(n for state, n in states.items() if state != "DEAD") if states else len(value)
    detail = ", ".join(f"{n} {state}" for state, n in states.items())
    return f"{count} {kind}" + ("" if count == 1 else "s") + (f" ({detail})" if detail else "")


def _amount(name: str, amount: float) -> str:
    # Amounts are kept at 1e-4: more digits would be noise from the subtraction above.
    return in_units(amount) if name in _IN_BYTES else f"{round(amount, 4):g}"


def _figure(name: str, value: object) -> str:
    if "_bytes" in name and isinstance(value, int | float):
        return f"{name.replace('_bytes', '').replace('_', ' ')} {in_units(value)}"
    return f"{name.replace('_', ' ')} {value}"


def _unfinished(info: "SessionInfo", node_id: str) -> list[dict[str, object]]:
    """Rows of the tasks that have not ended, as far as processes tell of theirs within a moment."""
    from sundog.engines import sessions
    from sundog.observe.records import read_begun
    from sundog.observe.task_states import rows_of

    told, _silent = sessions.request(info, ListRows("tasks", _PATIENCE_S))
    rows = rows_of(read_begun(info.path), told, node_id)
    return [row for row in rows if row["state"] not in ("FINISHED", "FAILED")]


def _look(info: "SessionInfo") -> "Activity":
    """Two looks, so that there are shares of a core and rates."""
    from sundog.engines import sessions
    from sundog.observe.activity import Watcher

    watcher = Watcher(partial(sessions.request, info), info.path)
    watcher.look()
    time.sleep(_BETWEEN_S)
    return watcher.look()


def _tables(activity: "Activity") -> "list[RenderableType]":
    from rich.table import Table
    from rich.text import Text

    from sundog.cli import top_rows

    parts: list[RenderableType] = []
    for title, columns, found in (
        ("Functions", top_rows.FUNCTION_COLUMNS, top_rows.function_rows(activity, "active")),
        ("Processes", top_rows.WORKER_COLUMNS, top_rows.worker_rows(activity, "start")),
    ):
        table = Table(*columns, title=title, title_justify="left", box=None)
        for _, cells in found:
            table.add_row(*[Text(cell) for cell in cells])
        parts.append(table)
    return parts


def _process(each: "WorkerActivity") -> dict[str, object]:
    return {
        **each.who._asdict(),
        "calls": [call._asdict() for call in each.calls],
        "silent": each.silent,
        "core_share": each.core_share,
        "rss_bytes": each.rss_bytes,
        "own_bytes": each.own_bytes,
    }


def _elsewhere(which: str | None, temp_dir: str | None) -> "Opened | None":
    """A running job on a Ray cluster, if that is meant."""
    from sundog.observe import desks
    from sundog.observe import sessions as observed

    try:
        meant = observed.open_session(which, temp_dir)
    except observed.NoSuchSession:
        return None
    return meant if desks.has_desk(meant.path) else None


def _show_elsewhere(job: "Opened", as_json: bool) -> int:
    """The page of a job on a Ray cluster: its driver tells."""
    from rich.console import Console

    from sundog.engines.sessions import SessionInfo
    from sundog.observe import desks
    from sundog.observe.records import read_begun
    from sundog.observe.task_states import rows_of

    try:
        answer = desks.ask(job.path, "status")
        told = desks.ask(job.path, "tasks")
    except desks.Unanswered as error:
        raise exits.CommandError(str(error)) from None
    answer["tasks"] = rows_of(read_begun(job.path), told, str(answer["node"]))
    if as_json:
        click.echo(json.dumps({"session": job.name, **answer}, default=str, indent=2))
        return exits.OK
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_PIPE_WIDTH)
    for part in render(SessionInfo(job.name, job.path, "", int(answer["driver_pid"])), answer):
        console.print(part)
    return exits.OK


_EXAMPLES = rows.examples(
    ("sundog status", "resources, what runs, what waits and why"),
    ("sundog status -v", "every function and every process too"),
    ("sundog status --json", "for another program"),
)


@click.command("status", short_help="Show what a running session has, runs and waits for.", epilog=_EXAMPLES)
@click.option("--session", metavar="NAME", help="The name of the session; by default the newest one.")
@click.option("--address", metavar="ADDRESS", help="The address of the session.")
@click.option(
    "--temp-dir", type=click.Path(file_okay=False), help="The folder in which sessions keep their files."
)
@click.option("-v", "--verbose", is_flag=True, help="Show every function and every process too.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def command(
    session: str | None, address: str | None, temp_dir: str | None, verbose: bool, as_json: bool
) -> int:
    """Show what a running session has, runs and waits for: the newest, or the one named by --session."""
    from sundog.engines import sessions

    found = sessions.find_sessions(temp_dir)
    elsewhere = _elsewhere(session or address, temp_dir) if session or address or not found else None
    if elsewhere is not None:
        return _show_elsewhere(elsewhere, as_json)
    if not found:
        raise exits.NoSession(temp_dir)
    chosen = [
        info
        for info in found
        if (session is None or info.name == session)
        and (address in (None, "auto") or info.address == address)
    ]
    if not chosen:
        asked = session or address
        names = printable(", ".join(info.name for info in found))
        raise exits.CommandError(f"no running session is called {asked!r}; running: {names}")
    told = sessions.request(chosen[0], Status())
    answer = cast("StatusPage", told)
    answer["tasks"] = _unfinished(chosen[0], str(told.get("node", "")))
    activity = _look(chosen[0]) if verbose else None
    if as_json and activity is not None:
        answer["functions"] = [as_dict(each) for each in activity.functions]
        answer["processes"] = [_process(each) for each in activity.workers]
    if as_json:
        click.echo(json.dumps({"session": chosen[0].name, **answer}, default=str, indent=2))
        return exits.OK
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_PIPE_WIDTH)
    for part in render(chosen[0], answer):
        console.print(part)
    for part in _tables(activity) if activity is not None else ():
        console.print(part)
    for other in found:
        if other is not chosen[0]:
            name = printable(other.name)
            console.print(f"Also running: {name} (sundog status --session {name})", markup=False)
    return exits.OK
