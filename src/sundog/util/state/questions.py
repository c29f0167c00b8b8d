"""Questions of the state API to a session: to its node while it runs, to its records always.

::

    running   node: what lives and what its processes tell      ─┐
    always    records: what has ended, and what the node forgot ─┴─► rows

Owns the choice between node and records for each question, and the rows of what lived when a session ended. Filtering
happens in the caller's thread, so that the node does no work per filter. Keeps nothing.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sundog.observe import desks, unended
from sundog.observe import index as records
from sundog.observe.sites import site_of
from sundog.observe.task_query import Filter, Matches, Scene, TaskQuery, recorded_rows
from sundog.plain import JsonObject
from sundog.util.state.exception import RayStateApiException
from sundog.util.state.source import StateSource, find_source
from sundog.wire.requests import ListRows, PausedTasks

if TYPE_CHECKING:
    from sundog.observe.usage import FunctionFigures

logger = logging.getLogger(__name__)

Rows = list[JsonObject]

_ALL = 1 << 62
# Kinds whose rows the node records, with the word for one and the column that names a row.
_RECORDED = {
    "actors": ("actor", "actor_id"),
    "workers": ("worker", "worker_id"),
    "jobs": ("job", "job_id"),
    "nodes": ("node", "node_id"),
    "placement_groups": ("placement_group", "placement_group_id"),
    "runtime_envs": ("runtime_env", "runtime_env"),
}
_OVER = "The session ended."
_UNTOLD = "It ended with its session, whose node did not record how."


def ask(kind: str, detail: bool, address: str | None, whole: bool = True) -> Rows:
    """Give every row of a kind; what is not `whole` is warned of instead of refused.

    Raises:
        RayStateApiException: a process did not answer, and the caller wants a complete answer.
    """
    if kind == "tasks":
        return ask_tasks([], _ALL, detail, address, whole, lambda row, filters: True)[0]
    source = find_source(address)
    if not source.is_live:
        with contextlib.suppress(desks.Unanswered):
            if desks.has_desk(source.path):  # a job that runs on a Ray cluster
                desks.ask(source.path, "look")
        with records.opened(source.path) as index:
            return _of_ended(index, kind, source)
    rows = _tell(source, kind, detail, whole)
    if kind in ("actors", "workers"):
        rows = _with_forgotten(rows, kind, source)
    return rows


def ask_tasks(
    filters: Sequence[Filter], limit: int, detail: bool, address: str | None, whole: bool, matches: Matches
) -> tuple[Rows, int]:
    """Give the attempts that pass the filters, at most `limit`, and how many there are in all. Raises as `ask`."""
    source = find_source(address)
    told = [each for each in _tell(source, "tasks", detail, whole) if "count" not in each]
    with records.opened(source.path) as index, index.standing_still():
        query = TaskQuery(index, _scene(source, index), matches)
        found, total = query.rows(filters, limit, told, detail=detail)
        _warn_of_missed(index)
    return (_with_pauses(found, source) if detail and source.is_live else found), total


def count_tasks(address: str | None, whole: bool) -> Rows:
    """Give how many attempts there are of each name, type and state. Raises as `ask`."""
    source = find_source(address)
    told = _tell(source, "tasks", False, whole)
    with records.opened(source.path) as index, index.standing_still():
        query = TaskQuery(index, _scene(source, index), lambda row, filters: True)
        counted = query.counts([each for each in told if "count" not in each])
        _warn_of_missed(index)
    types = {"task": "NORMAL_TASK", "actor_task": "ACTOR_TASK"}
    more = [dict(each, type=types[each["kind"]]) for each in told if "count" in each]
    return counted + more


def ask_usage(address: str | None) -> dict[str, dict[str, FunctionFigures]]:
    """Give what functions and classes used so far, each by name."""
    return records.session_usage(find_source(address).path)


def _tell(source: StateSource, kind: str, detail: bool, whole: bool) -> Rows:
    """What the node and the processes of a running session tell; of a job on a Ray cluster, its driver."""
    if not source.is_live:
        return desks.unfinished(source.path) if kind == "tasks" else []
    rows, silent = source.ask(ListRows(kind))
    if silent:
        text = (
            f"The {kind} of {len(silent)} processes are missing, because these processes did not answer (pids "
            f"{', '.join(map(str, silent))}): they are stopped, or run code that blocks other threads. "
            "See: sundog status"
        )
        if whole:
            raise RayStateApiException(
                f"{text}. To get the rows that are known, give raise_on_missing_output=False."
            )
        logger.warning("%s", text)
    return rows


def _scene(source: StateSource, index: records.Index) -> Scene:
    if source.is_live:
        return Scene(source.node_id(), source.path, True)
    found = index.one("SELECT lower(hex(node_id)) FROM processes WHERE node_id != x'' LIMIT 1")
    return Scene(str(found or ""), source.path, desks.has_desk(source.path))


def _warn_of_missed(index: records.Index) -> None:
    missed = index.missed()
    if missed:
        logger.warning(
            "%d events are missing: dropped beyond record_events_max, overwritten, damaged, or not written to a full "
            "disk. Counts of ended tasks are too low by at most this number.",
            missed,
        )


def _with_pauses(rows: Rows, source: StateSource) -> Rows:
    """Say of tasks that run whether they stand in a debugger."""
    paused = {(each.task_id, each.attempt) for each in source.ask(PausedTasks())}
    for row in rows:
        if row["state"].startswith("RUNNING"):
            row["is_debugger_paused"] = (row["task_id"], row["attempt_number"]) in paused
    return rows


# ---------------------------------------------------------------------- from records
def _with_forgotten(rows: Rows, kind: str, source: StateSource) -> Rows:
    """The node forgets the oldest dead; the records do not."""
    word, key = _RECORDED[kind]
    listed = {row[key] for row in rows}
    with records.opened(source.path) as index:
        older = [row for row in recorded_rows(index, word) if row[key] not in listed]
    # What the node does not list is not alive, whatever was recorded last.
    return [row for row in older if row.get("state") == "DEAD" or row.get("is_alive") is False] + rows


def _of_ended(index: records.Index, kind: str, source: StateSource) -> Rows:
    if kind == "objects":
        return _objects(index)
    if kind not in _RECORDED:
        return []
    word, key = _RECORDED[kind]
    rows = recorded_rows(index, word)
    is_running = desks.has_desk(source.path)
    for row in rows if not is_running else ():
        _end(kind, row)
    if kind == "jobs":
        ended = unended.killed_jobs(index)
        for row in rows:
            if row[key] in ended:
                row.update(status="FAILED", message=unended.KILLED)
    if kind == "workers":
        killed = unended.killed_drivers(index)
        for row in rows:
            if row[key] in killed:
                row.update(exit_type="SYSTEM_ERROR", exit_detail=unended.KILLED)
        rows += _unburied(index, {row[key] for row in rows}, is_running)
    return rows


def _end(kind: str, row: dict[str, object]) -> None:
    """What lived when its session ended does not any more."""
    if kind == "actors" and row["state"] != "DEAD":
        row.update(state="DEAD", death_cause={"actor_died_error_context": {"error_message": _OVER}})
    elif kind == "jobs" and row["status"] == "RUNNING":
        row.update(status="FAILED", message=f"{_OVER} Its driver ended without leaving the session.")
    elif kind == "nodes" and row["state"] != "DEAD":
        row.update(state="DEAD", state_message=_OVER)


def _unburied(index: records.Index, listed: set[str], is_running: bool) -> Rows:
    """Processes of which only their rings are left: the node ended first, or the job runs on a Ray cluster."""
    in_order = all(row["status"] == "SUCCEEDED" for row in recorded_rows(index, "job"))
    exit_type, detail = ("INTENDED_SYSTEM_EXIT", _OVER) if in_order else ("SYSTEM_ERROR", _UNTOLD)
    rows = []
    for each in index.dicts("SELECT * FROM workers"):
        if each["worker_id"] not in listed:
            rows.append(
                {
                    "worker_id": each["worker_id"],
                    "is_alive": is_running,
                    "worker_type": each["role"].upper(),
                    "exit_type": None if is_running else exit_type,
                    "exit_detail": None if is_running else detail,
                    "node_id": each["node_id"],
                    "ip": "127.0.0.1",
                    "pid": each["pid"],
                    "job_id": each["job_id"],
                }
            )
    return rows


def _objects(index: records.Index) -> Rows:
    """Objects that went to shared memory, put or made by tasks; no ref to them is left."""
    return [
        {
            "object_id": each["object_id"],
            "object_size": each["size_bytes"],
            "task_status": "FINISHED",
            "attempt_number": each["attempt"] + 1,
            "reference_type": "FREED",
            "call_site": each["call_site"] or _site_of_maker(index, each["task_id"]),
            "type": each["role"].upper(),
            "pid": each["pid"],
            "ip": "127.0.0.1",
        }
        for each in index.dicts("SELECT * FROM objects ORDER BY start_s")
    ]


def _site_of_maker(index: records.Index, task_id: str | None) -> str:
    """Where the task was submitted whose result an object is."""
    if not task_id:
        return ""
    task = bytes.fromhex(task_id)
    name = index.one(
        f"SELECT n.text FROM attempts a JOIN names n ON n.id = a.name WHERE a.task_id = ? AND {index.holding(task)}",
        task,
    )
    return site_of(index, task, str(name)) if name else ""
