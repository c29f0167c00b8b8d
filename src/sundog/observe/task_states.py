"""Rows of the state API for tasks: records of the past and what the processes tell of the present, as one list.

Owns the columns of a task's row and the rules behind them: which function, which parent, which job, what it held, why
it failed. Refuses: files and sockets. `rows_of` takes what `observe.records` has read and the facts that owners and
the node have told (`owner/description.py`), and gives one row for each attempt. Pure, in any process.

The parent of a task is found when it is asked for: the task that ran in the submitting process at the moment of
submission. In a driver that is the driver's own task; in an actor that runs several calls at a time no record tells
which of them it was, so it is the actor's creation, as in Ray.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from functools import lru_cache

from sundog.observe.records import ProcessRow, SessionRows
from sundog.observe.timeline import TaskRow
from sundog.plain import JsonMapping, JsonObject

DRIVER_TASK_ID_PREFIX = "f" * 40
_TYPES = {"task": "NORMAL_TASK", "actor_task": "ACTOR_TASK", "actor_creation": "ACTOR_CREATION_TASK"}
# An attempt that ended with its process, unless its owner noted how the task itself ended.
_LOST = {"task": "WORKER_DIED", "actor_task": "ACTOR_UNAVAILABLE", "actor_creation": "WORKER_DIED"}
_CONCURRENCY = (
    "PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY"  # in the process of an actor that runs several calls
)
_ORDER = ("PENDING_ARGS_AVAIL", "PENDING_NODE_ASSIGNMENT", "SUBMITTED_TO_WORKER")

Key = tuple[str, int]  # task id in hexadecimal, attempt
Facts = JsonMapping
Row = JsonObject


def rows_of(
    found: SessionRows, told: Iterable[Facts], node_id: str, session_path: str = "", *, detail: bool = True
) -> list[Row]:
    """One row for each attempt that is known of, ended or not.

    Args:
        found: what the session's records hold.
        told: facts of unfinished tasks (with a `state`), and of calls that run now (with `running`).
        node_id: of the node they run on.
        session_path: the session's folder, in which the workers' output is.
        detail: also the columns that are long and seldom wanted, of attempts that have ended.
    """
    known = [each for each in told if "count" not in each]
    return _States(found, node_id, session_path, detail).rows(known)


class _States:
    def __init__(self, found: SessionRows, node_id: str, session_path: str, detail: bool) -> None:
        self.found = found
        self.detail = detail
        self.node_id = node_id
        self.logs = f"{session_path}/logs/worker-" if session_path else ""
        self.parents = _Parents(found)
        self.actors = {each.actor_id: each for each in found.processes.values() if each.actor_id}

    def rows(self, told: list[Facts]) -> list[Row]:
        rows: dict[Key, Row] = {}
        lost = []
        for task in self.found.tasks:
            if task.lost:
                lost.append(task)
            elif not task.hidden:
                rows[task.task_id.hex(), task.attempt] = self._ended(task)
        for task in lost:
            key = (task.task_id.hex(), task.attempt)
            # What the worker itself recorded of an attempt, such as one that ended its actor, takes
            # precedence.
            if not task.hidden and key not in rows:
                rows[key] = self._ended(task)
        for facts in self.found.failures:
            key = (facts["task"], facts["attempt"])
            noted = rows.setdefault(key, self._failed(facts))
            if noted["state"] == "FAILED":
                noted.update(error_type=facts["error"], error_message=facts["message"] or None)
        for facts in self.found.errors:
            row = rows.get((facts["task"], facts["attempt"]))
            if row is not None and row["state"] == "FAILED":
                row.update(error_type=facts["type"], error_message=facts["message"])
        for facts in self.found.failures:
            if facts.get("origin"):  # its error is the error of an argument
                self._copy_message(rows, facts)
        running = {each["task"]: each for each in told if each.get("running")}
        for each in told:
            key = (each["task"], each.get("attempt", 0))
            if not each.get("running") and key not in rows:
                rows[key] = self._unfinished(each, running)
        for facts in self.found.errors:
            key = (facts["task"], facts["attempt"])
            if facts.get("in_order") and key in rows and (key[0], key[1] + 1) not in rows:
                _finish(rows[key])
        for (task_id, attempt), row in rows.items():
            if attempt:
                _date_retry(row, rows.get((task_id, attempt - 1)))
        return list(rows.values())

    def _copy_message(self, rows: dict[Key, Row], facts: Facts) -> None:
        told = [row for (task, _), row in rows.items() if task == facts["origin"] and row["error_message"]]
        message = max(told, key=lambda row: row["attempt_number"])["error_message"] if told else None
        if message is None:
            noted = [each["message"] for each in self.found.errors if each["task"] == facts["origin"]]
            message = noted[-1] if noted else None
        if message is not None and (facts["task"], facts["attempt"]) in rows:
            rows[facts["task"], facts["attempt"]]["error_message"] = message

    # ------------------------------------------------------------------ one attempt
    def _ended(self, task: TaskRow) -> Row:
        lease = _lease(task.lease)
        row = self._base(task.task_id.hex(), task.attempt, task.kind, task.owner_id, task.submit_s)
        self._name(row, task.name, task.function or task.name, task.actor_id, began=True)
        worker = task.worker_id.hex()
        # A call takes no resources beyond those of its actor.
        held = {} if task.kind == "actor_task" else lease.get("resources") or {}
        row.update(
            state=task.status,
            error_type=None if task.ok else _LOST[task.kind] if task.lost else "TASK_EXECUTION_EXCEPTION",
            node_id=task.node_id.hex() or self.node_id,
            worker_id=worker,
            worker_pid=task.pid,
            required_resources=held,
            placement_group_id=lease.get("pg") or None,
            start_time_ms=int((task.start_s or 0) * 1000),
            end_time_ms=int((task.end_s or 0) * 1000),
            cpu_s=None if task.lost else task.cpu_s,
            peak_memory=task.peak_bytes or None,
        )
        if self.detail:
            row.update(
                runtime_env_info=_environment(lease.get("env") or {}),
                events=_events(task.submit_s, task.start_s, task.end_s, task.status),
                profiling_data=_profile(row, task),
                task_log_info=self._log_info(worker),
            )
            moved = self.found.traffic.get((task.task_id, task.attempt))
            if moved is not None:
                row.update(bytes_in=moved.bytes_in, bytes_out=moved.bytes_out, blocked_s=moved.blocked_s)
        return row

    def _failed(self, facts: Facts) -> Row:
        """A task that no worker wrote a record of."""
        row = self._told(facts)
        end_s = facts["end_s"]
        row.update(
            state="FAILED",
            end_time_ms=int(end_s * 1000),
            events=[
                _event(_ORDER[0], facts["submit_s"]),
                *([] if facts.get("waited") else [_event(_ORDER[1], facts["submit_s"])]),
                _event("FAILED", end_s),
            ],
        )
        return row

    def _unfinished(self, facts: Facts, running: Mapping[str, Facts]) -> Row:
        row = self._told(facts)
        task_id, state = facts["task"], facts["state"]
        start_s = 0.0
        begun = self.found.begun.get(bytes.fromhex(task_id))
        runs = running.get(task_id)
        if runs is not None:
            state, start_s = "RUNNING", runs["start_s"]
            row.update(worker_id=runs["worker"], worker_pid=runs["pid"])
        elif begun is not None and state in (*_ORDER[1:], _CONCURRENCY, "RUNNING"):
            state, start_s = "RUNNING", begun[2]
            row.update(worker_id=begun[0].hex(), worker_pid=begun[1])
        elif facts.get("worker"):
            row["worker_id"] = facts["worker"]
            if facts["kind"] == "task":
                # The task may still be taken back and sent to another worker.
                state, row["worker_id"] = "PENDING_NODE_ASSIGNMENT", None
        if row["worker_id"]:
            home = self.found.processes.get(bytes.fromhex(row["worker_id"]))
            row["node_id"] = (home.node_id.hex() if home is not None else "") or self.node_id
        if state == "RUNNING":
            row.update(
                start_time_ms=int(start_s * 1000),
                task_log_info=self._log_info(row["worker_id"]),
                runtime_env_info=_environment(facts.get("env") or {}),
            )
            waits = self.found.blocked.get(bytes.fromhex(task_id))
            if waits is not None:
                row.update(
                    blocked_in=waits.verb,
                    blocked_since_ms=int(waits.since_s * 1000),
                    blocked_on=waits.object_id,
                    blocked_at=waits.site,
                )
            self._name(row, row["name"], row["func_or_class_name"], bytes.fromhex(facts["actor"]), began=True)
        row.update(state=state, events=_events(facts["submit_s"], start_s or None, None, state))
        return row

    def _told(self, facts: Facts) -> Row:
        """A row of what an owner, or the node, told of a task."""
        owner = bytes.fromhex(facts["owner"])
        row = self._base(facts["task"], facts["attempt"], facts["kind"], owner, facts["submit_s"])
        self._name(row, facts["name"], facts["function"], bytes.fromhex(facts["actor"]), began=False)
        row.update(
            job_id=facts.get("job") or row["job_id"],
            required_resources=facts["resources"],
            placement_group_id=facts["pg"] or None,
            error_type=facts.get("error"),
            error_message=facts.get("message") or None,
        )
        return row

    def _base(self, task_id: str, attempt: int, kind: str, owner: bytes, submit_s: float) -> Row:
        process = self.found.processes.get(owner)
        return {
            "task_id": task_id,
            "attempt_number": attempt,
            "type": _TYPES[kind],
            "job_id": process.job_id.hex() if process is not None else "",
            "parent_task_id": self.parents.of(process, submit_s),
            "creation_time_ms": int(submit_s * 1000),
            "language": "PYTHON",
            "call_site": self.found.sites.get(task_id),
            "label_selector": {},
            "fallback_strategy": {"options": []},
            "runtime_env_info": _environment({}) if self.detail else None,
            "profiling_data": {},
            "error_message": None,
            "error_type": None,
            "node_id": None,
            "worker_id": None,
            "worker_pid": None,
        }

    def _name(self, row: Row, name: str, function: str, actor_id: bytes, *, began: bool) -> None:
        """A call that has no name of its own is named after what its actor calls itself, once that is known."""
        actor = self.actors.get(actor_id)
        if actor is not None and began and name == function:
            if row["type"] == "ACTOR_TASK" and actor.repr_name:
                name = f"{actor.repr_name}.{function.rpartition('.')[2]}"
            elif row["type"] == "ACTOR_CREATION_TASK" and actor.actor_name:
                name = f"{actor.actor_name}:{function}"
        row.update(name=name, func_or_class_name=function, actor_id=actor_id.hex() or None)

    def _log_info(self, worker: str) -> JsonObject | None:
        if not self.logs:
            return None
        return {"stdout_file": f"{self.logs}{worker}.out", "stderr_file": f"{self.logs}{worker}.err"}


class _Parents:
    """Which task ran where when."""

    def __init__(self, found: SessionRows) -> None:
        self.runs: dict[bytes, list[tuple[float, float, str]]] = dict(found.runs or {})
        for task in found.tasks if found.runs is None else ():  # in the order they began
            span = (task.start_s or 0.0, task.end_s or 0.0, task.task_id.hex())
            self.runs.setdefault(task.worker_id, []).append(span)
        for task_id, (worker, _, at_s) in found.begun.items():
            self.runs.setdefault(worker, []).append((at_s, float("inf"), task_id.hex()))
        self.starts = {worker: [span[0] for span in spans] for worker, spans in self.runs.items()}

    def of(self, process: ProcessRow | None, submit_s: float) -> str | None:
        """The task that submitted another at a moment; None if that is not known."""
        if process is None:
            return None
        if process.role == "driver":
            return DRIVER_TASK_ID_PREFIX + process.job_id.hex()
        if process.concurrent:
            return process.actor_id.hex()
        at = bisect_right(self.starts.get(process.process_id, []), submit_s) - 1
        if at >= 0:
            return self.runs[process.process_id][at][2]
        return process.actor_id.hex() or None


@lru_cache(maxsize=256)
def _lease(text: str) -> JsonObject:
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        found = {}
    return found if isinstance(found, dict) else {}


def _environment(env: JsonMapping) -> JsonObject:
    return {
        "serialized_runtime_env": json.dumps(env, default=repr, sort_keys=True) if env else "{}",
        "runtime_env_config": {"setup_timeout_seconds": 600, "eager_install": True, "log_files": []},
    }


def _finish(row: Row) -> None:
    """An attempt that was ended on purpose, by a cancel while it ran or by `sys.exit(0)`: no failure, as in Ray."""
    row.update(state="FINISHED", error_type=None, error_message=None)
    if row.get("events"):
        row["events"][-1]["state"] = "FINISHED"


def _date_retry(row: Row, before: Row | None) -> None:
    """A retry is created when the attempt before it has failed; the record has the time of the first submission."""
    ended_ms = before.get("end_time_ms") if before is not None else None
    if not ended_ms or ended_ms < row["creation_time_ms"]:
        return
    row["creation_time_ms"] = ended_ms
    for event in row.get("events") or ():
        event["created_ms"] = max(event["created_ms"], float(ended_ms))


def _event(state: str, at_s: float) -> JsonObject:
    return {"state": state, "created_ms": float(int(at_s * 1000))}


def _events(
    submit_s: float, start_s: float | None, end_s: float | None, state: str
) -> list[dict[str, object]]:
    """The states that an attempt went through, as far as their times are recorded."""
    found = [_event(_ORDER[0], submit_s)]
    if state == _ORDER[0]:
        return found
    found.append(_event(_ORDER[1], submit_s))
    if start_s is not None:
        found += [_event(_ORDER[2], start_s), _event("RUNNING", start_s)]
    elif state in (_ORDER[2], _CONCURRENCY):
        found.append(_event(_ORDER[2], submit_s))
        if state == _CONCURRENCY:
            found.append(_event(_CONCURRENCY, submit_s))
    if end_s is not None:
        found.append(_event(state, end_s))
    return found


def _profile(row: Row, task: TaskRow) -> dict[str, object]:
    """The phases of an attempt, in the form of Ray's profile events."""
    start, end = (task.start_s or 0.0) * 1000, (task.end_s or 0.0) * 1000

    def phase(name: str, extra: dict[str, object]) -> dict[str, object]:
        return {"event_name": name, "start_time": start, "end_time": end, "extra_data": extra}

    whole = {"name": row["func_or_class_name"], "task_id": row["task_id"]}
    return {
        "component_type": "worker",
        "component_id": task.worker_id.hex(),
        "node_ip_address": "127.0.0.1",
        "events": [phase("task:execute", {}), phase(f"task::{row['name']}", whole)],
    }
