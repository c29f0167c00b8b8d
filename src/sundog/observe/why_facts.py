"""The facts behind `why`: gathered from a session's records and, while it runs, from its node.

Owns what a word means (an id or the beginning of one, a pid, a function, an actor's name) and where each fact of
`observe.why` comes from. Decides nothing. Runs in the caller's process.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sundog import events
from sundog.observe import desks, lost_nodes, memory, stacks, unended, why, zones
from sundog.observe.index import Index
from sundog.observe.phases import phases_of
from sundog.observe.records import WaitRow, tasks_where
from sundog.observe.sessions import Opened
from sundog.observe.task_query import Scene, TaskQuery, recorded_rows
from sundog.observe.words import in_words
from sundog.wire.requests import ListRows, Status

if TYPE_CHECKING:
    from sundog.plain import JsonMapping, JsonObject

_DEPTH_MAX = 12
_HOLDERS, _RUNNING_MAX = 5, 100
_STACK_S = 1.0
_ANSWER_S = 1.0  # a worker that sets up its environment cannot answer for minutes
_OBJECT_CHARS, _TASK_CHARS, _WORKER_CHARS, _JOB_CHARS = 40, 32, 16, 8


class Unknown(LookupError):
    """Nothing in the session is meant by a word. The text is for the user."""


class Gatherer:
    """Facts of one session."""

    def __init__(self, opened: Opened, index: Index) -> None:
        self.opened = opened
        self.index = index
        self.now = time.time()
        self.told: dict[str, JsonMapping] = {}
        self.pending: list[JsonMapping] = []
        self.groups: list[JsonMapping] = []
        self.actors = {row["actor_id"]: row for row in recorded_rows(index, "actor")}
        self.jobs = {row["job_id"]: row for row in recorded_rows(index, "job")}
        node_id = ""
        facts: list[JsonObject] = []
        if opened.is_live:
            try:
                facts, _ = opened.ask(ListRows("tasks", _ANSWER_S))
                status = opened.ask(Status())
                node_id = str(status.get("node", ""))
                self.pending = list(status.get("pending", []))
                self.actors.update({row["actor_id"]: row for row in opened.ask(ListRows("actors"))[0]})
                self.jobs.update({row["job_id"]: row for row in opened.ask(ListRows("jobs"))[0]})
                self.groups = list(opened.ask(ListRows("placement_groups"))[0])
            except (
                ConnectionError,
                EOFError,
            ):  # the session ended while it was asked: its records tell the rest
                facts = []
                self.opened = opened = Opened(opened.name, opened.path, None, opened.file)
        elsewhere = not opened.is_live and desks.has_desk(opened.path)  # a job that runs on a Ray cluster
        if elsewhere:
            facts = desks.unfinished(opened.path)
            with contextlib.suppress(desks.Unanswered):
                self.pending = desks.ask(opened.path, "status").get("pending", [])
        elif not opened.is_live:
            self.now = zones.bounds(index.db)[1] or self.now
        self.told = {each["task"]: each for each in facts if "task" in each and not each.get("running")}
        self.unfinished = [each for each in facts if "count" not in each]
        self.is_elsewhere = elsewhere
        self.is_running = opened.is_live or elsewhere
        self.query = TaskQuery(index, Scene(node_id, opened.path, self.is_running), _same)
        self.usage = index.usage()
        self.lost_nodes = lost_nodes.find(index, self.now)

    # ------------------------------------------------------------------ what is meant
    def find(self, word: str) -> why.Facts:
        """The facts of what a word means.

        Raises:
            Unknown: nothing, or several things, are meant.
        """
        text = word.strip().lower().removesuffix("()")
        is_hex = text != "" and all(letter in "0123456789abcdef" for letter in text)
        if is_hex:
            found = self._by_id(text)
            if found is not None:
                return found
        named = [row for row in self.actors.values() if word in (row.get("name"), row.get("class_name"))]
        if named:
            return self.actor(named[-1]["actor_id"])
        task = self._of_function(word.removesuffix("()"))
        if task:
            return self.task(task)
        raise Unknown(
            f"nothing in {self.opened.name} is called {word!r}: give the id of a task, actor, object, worker or job, a "
            "pid, or the name of a function or an actor. See: sundog list tasks"
        )

    def _by_id(self, text: str) -> why.Facts | None:
        if text.isdigit():
            ends = self.index.rows(
                "SELECT process_id FROM processes WHERE pid = ? ORDER BY id DESC", int(text)
            )
            if ends:
                return self.worker(ends[0][0].hex())
        if len(text) == _OBJECT_CHARS:
            return self.object(text)
        if text in self.actors:
            return self.actor(text)
        if len(text) == _JOB_CHARS and text in self.jobs:
            return self.job(text)
        if len(text) == _WORKER_CHARS and self.index.one(
            "SELECT 1 FROM processes WHERE process_id = ?", bytes.fromhex(text)
        ):
            return self.worker(text)
        if len(text) < 6:
            return None
        nodes = [each for id_, each in self.lost_nodes.items() if id_.startswith(text)]
        if len(nodes) == 1:
            return nodes[0]
        actors = [each for each in self.actors if each.startswith(text)]
        ids = self._tasks_like(text)
        if len(ids) + len(actors) > 1:
            raise Unknown(f"several ids begin with {text}: give more characters of the id.")
        if actors:
            return self.actor(actors[0])
        return self.task(ids[0]) if ids else None

    def _tasks_like(self, text: str) -> list[str]:
        if len(text) == _TASK_CHARS:
            task = bytes.fromhex(text)
            there = text in self.told or self.index.one(
                f"SELECT 1 FROM attempts a WHERE task_id = ? AND {self.index.holding(task)} LIMIT 1", task
            )
            there = there or self.index.one("SELECT 1 FROM processes WHERE begun = ?", task)
            return [text] if there else []
        found = {each for each in self.told if each.startswith(text)}
        found |= {
            task
            for (task,) in self.index.rows(
                "SELECT DISTINCT lower(hex(task_id)) FROM attempts WHERE hex(task_id) LIKE ? LIMIT 3",
                f"{text.upper()}%",
            )
        }
        return sorted(found)

    def _of_function(self, name: str) -> str:
        """The most telling task of a function: one that failed, one that runs or waits, or the longest."""
        found = self.index.rows(
            "SELECT lower(hex(a.task_id)) FROM attempts a JOIN names n ON n.id = a.name "
            "WHERE ? IN (n.text, n.function) ORDER BY a.flags & 1 DESC, a.end_s - a.start_s DESC LIMIT 1",
            name,
        )
        failed = found and self.index.one(
            "SELECT 1 FROM attempts WHERE flags & 1 AND task_id = ?", bytes.fromhex(found[0][0])
        )
        left = self.index.rows(
            "SELECT lower(hex(p.begun)) FROM processes p JOIN names n ON n.id = p.begun_name "
            "WHERE ? IN (n.text, n.function)",
            name,
        )
        if (self.is_elsewhere or not self.is_running) and left and not failed:
            return str(left[0][0])
        waits = [each["task"] for each in self.told.values() if name in (each["name"], each["function"])]
        if failed or not waits:
            return str(found[0][0]) if found else ""
        return str(waits[0])

    # ------------------------------------------------------------------ tasks
    def task(self, task_id: str, depth: int = 0) -> why.TaskFacts:
        """The facts of a task."""
        rows, _ = self.query.rows([("task_id", "=", task_id)], 100, self.unfinished, detail=True)
        if not rows:
            return why.TaskFacts(task_id, "?", "UNKNOWN", self.now)
        row = max(rows, key=lambda each: each["attempt_number"])
        told = self.told.get(task_id, {})
        name = row["name"]
        start = (row.get("start_time_ms") or 0) / 1000
        end = (row.get("end_time_ms") or 0) / 1000
        newest = "WHERE a.task_id = ? ORDER BY a.attempt DESC LIMIT 1"
        exact = next(tasks_where(self.index, self.query.base, newest, (bytes.fromhex(task_id),)), None)
        if exact is not None and exact.start_s and row["state"] in ("FINISHED", "FAILED"):
            start, end = exact.start_s, exact.end_s or 0.0
        line, line_age_s = self._line(row)
        wait = self._wait(row) if row["state"] == "RUNNING" else None
        shortage, infeasible = self._shortage(row) if row["state"].startswith("PENDING_NODE") else ("", False)
        is_call = row.get("actor_id") and row["type"] == "ACTOR_TASK"
        actor = self.actor(row["actor_id"], depth + 1) if is_call and depth < 2 else None
        missing, puts = self._missing(told, depth)
        return why.TaskFacts(
            task_id=task_id,
            name=name,
            state=row["state"],
            now_s=self.now,
            submit_s=(row.get("creation_time_ms") or 0) / 1000 if exact is None else exact.submit_s,
            start_s=start,
            end_s=end,
            cpu_s=row.get("cpu_s") or 0.0,
            peak_bytes=row.get("peak_memory") or 0,
            pid=row.get("worker_pid") or 0,
            call_site=row.get("call_site") or "",
            line=line,
            line_age_s=line_age_s,
            blocked=_wait_words(wait, self.now) if wait is not None else "",
            awaits=self._awaited(wait, depth) if wait is not None else None,
            blocked_s=self._blocked_s(task_id, start, end),
            attempts=self._attempts(rows),
            phases=[(each.waits_for, each.seconds) for each in phases_of(self.index, exact)] if exact else (),
            usual=self._usual(name),
            missing=missing,
            missing_puts=puts,
            shortage=shortage,
            infeasible=infeasible,
            holders=self._holders(row) if shortage and not infeasible else (),
            origin=self._origin(task_id, depth),
            actor=actor,
            environment=self._environment() if row["state"].startswith("PENDING_NODE") else "",
            session_end=self._session_end(row) if not self.is_running else "",
        )

    def _wait(self, row: JsonMapping) -> WaitRow | None:
        """The get, wait or await in which a task is that runs; an await is seen in the stack of its process."""
        found = self.query.base.blocked.get(bytes.fromhex(row["task_id"]))
        if found is not None or not self.opened.is_live or row["type"] != "ACTOR_TASK":
            return found
        try:
            seen = stacks.collect(self.opened.ask, self.opened.path, (str(row["worker_id"]),), _STACK_S)
        except (ConnectionError, EOFError, TimeoutError):
            return None
        for each in seen:
            for stack in each.stacks.tasks if each.stacks is not None else ():
                is_its = stack.call is not None and stack.call.task_id == row["task_id"]
                if is_its and stack.waits_for.startswith("object "):
                    users = [frame for frame in stack.frames if not frame.ours]
                    site = f"{users[0].file}:{users[0].line} in {users[0].function}" if users else ""
                    return WaitRow("await", 0.0, stack.waits_for.removeprefix("object ")[:_TASK_CHARS], site)
        return None

    def _environment(self) -> str:
        """Which worker makes a runtime environment, since when, and what its installer said last; "" if none does."""
        made = self.index.rows(
            "SELECT f.at_s, f.json, p.pid FROM facts f JOIN processes p ON lower(hex(p.process_id)) = f.subject "
            "WHERE f.kind = 'preparing' AND NOT EXISTS (SELECT 1 FROM facts e WHERE e.kind IN ('prepared', 'worker') "
            "AND e.subject = f.subject) ORDER BY f.at_s DESC LIMIT 1"
        )
        if not made or not self.opened.is_live:
            return ""
        [(at_s, text, pid)] = made
        log = str(json.loads(text).get("log", ""))
        said = f"for {in_words(max(0.0, self.now - at_s))} in pid {pid}"
        with contextlib.suppress(OSError), open(log, encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line in file if line.strip()]
            said += f"; {log} ends with: {lines[-1][:200]}" if lines else ""
        return said

    def _session_end(self, row: JsonMapping) -> str:
        """Why the session of a task that was running ended, if its driver did not end it."""
        killed = unended.killed_drivers(self.index)
        drivers = self.index.rows(
            "SELECT process_id, pid FROM processes WHERE role = 'driver' AND job_id = ?",
            bytes.fromhex(row.get("job_id") or ""),
        )
        for process_id, pid in drivers:
            if process_id.hex() in killed:
                return f"the driver (pid {pid}) is gone: {unended.KILLED}"
        return ""

    def _attempts(self, rows: list[JsonObject]) -> list[why.Attempt]:
        found = []
        for row in sorted(rows, key=lambda each: each["attempt_number"]):
            if row["state"] not in ("FINISHED", "FAILED"):
                continue
            seconds = (
                (row.get("end_time_ms") or 0) - (row.get("start_time_ms") or row.get("end_time_ms") or 0)
            ) / 1000
            lost = row.get("error_type") in (
                "WORKER_DIED",
                "OUT_OF_MEMORY",
                "ACTOR_DIED",
                "ACTOR_UNAVAILABLE",
            )
            end = self.end(row["worker_id"]) if lost and row.get("worker_id") else None
            node = self.lost_nodes.get(row.get("node_id") or "")
            found.append(
                why.Attempt(
                    row["attempt_number"],
                    row["state"],
                    row.get("error_type") or "",
                    row.get("error_message") or "",
                    row.get("worker_pid") or 0,
                    max(0.0, seconds),
                    end,
                    node.words if node is not None else "",
                )
            )
        return found

    def _line(self, row: JsonMapping) -> tuple[str, float]:
        """The line of user code at which a task was seen last, and how long ago."""
        worker = row.get("worker_id")
        if worker:
            sample = events.last_sample(f"{self.opened.path}/rings/{worker}.ring")
            if sample is not None and sample.task_id.hex() == row["task_id"]:
                return sample.line, max(0.0, self.now - sample.at)
        found = self.index.rows(
            "SELECT n.text, s.at_s FROM samples s LEFT JOIN names n ON n.id = s.line WHERE s.task_id = ? "
            "ORDER BY s.at_s DESC LIMIT 1",
            bytes.fromhex(row["task_id"]),
        )
        return (found[0][0] or "", 0.0) if found else ("", 0.0)

    def _usual(self, name: str) -> why.Usual | None:
        figures = self.usage["functions"].get(name)
        if not figures:
            return None
        queued = self.index.one(
            "SELECT sum(queued_s) / sum(count) FROM counts WHERE name IN (SELECT id FROM names WHERE text = ?)",
            name,
        )
        spread = figures["duration_s"]
        return why.Usual(figures["count"], spread["mean"], spread["p95"], queued or 0.0)

    def _shortage(self, row: JsonMapping) -> tuple[str, bool]:
        wanted = dict(row.get("required_resources") or {})
        rows = [each for each in self.pending if dict(each["shape"]) == wanted] or list(self.pending)[:1]
        return (str(rows[0]["why"]), bool(rows[0]["infeasible"])) if rows else ("", False)

    def _holders(self, row: JsonMapping) -> list[str]:
        """Which processes have what a task waits for: tasks that run, actors, placement groups."""
        wanted = set(row.get("required_resources") or {"CPU": 1})
        rows, _ = self.query.rows([("state", "=", "RUNNING")], _RUNNING_MAX, self.unfinished, detail=True)
        found = []
        for each in rows:
            # In get and wait a task returns its CPU, and a task in a placement group uses the CPUs of its
            # group.
            waits = bytes.fromhex(each["task_id"]) in self.query.base.blocked
            held = _held(each.get("required_resources"), wanted - ({"CPU"} if waits else set()))
            if held and not each.get("placement_group_id"):
                since = in_words(max(0.0, self.now - (each.get("start_time_ms") or 0) / 1000))
                found.append(
                    f"{each['name']}() {each['task_id']} in pid {each['worker_pid']} for {since} ({held})"
                )
        for actor in self.actors.values():
            held = _held(actor.get("required_resources"), wanted)
            if actor["state"] == "ALIVE" and held and not actor.get("placement_group_id"):
                found.append(
                    f"actor {actor['class_name']} {actor['actor_id']} in pid {actor['pid']} ({held})"
                )
        for group in self.groups:
            total: Counter[str] = Counter()
            for bundle in group.get("bundles") or () if group.get("state") == "CREATED" else ():
                total.update(bundle.get("unit_resources") or {})
            if held := _held(total, wanted):
                name = f" {group['name']!r}" if group.get("name") else ""
                found.append(f"placement group {group['placement_group_id']}{name} ({held})")
        return found[:_HOLDERS]

    def _missing(self, told: JsonMapping, depth: int) -> tuple[Sequence[why.TaskFacts], Sequence[str]]:
        makers, puts = [], []
        for oid in told.get("missing", ()) if depth < _DEPTH_MAX else ():
            task = oid[:_TASK_CHARS]
            if self._tasks_like(task):
                makers.append(self.task(task, depth + 1))
            else:
                puts.append(oid)
        return makers, puts

    def _awaited(self, wait: WaitRow, depth: int) -> why.TaskFacts | None:
        """The task whose result a running one waits for; None of a put."""
        known = depth < _DEPTH_MAX and self._tasks_like(wait.object_id)
        return self.task(wait.object_id, depth + 1) if known else None

    def _blocked_s(self, task_id: str, start_s: float, end_s: float) -> float:
        """How long an attempt that has ended was in get and wait."""
        sql = "SELECT sum(end_s - start_s) FROM waited WHERE task_id = ? AND start_s BETWEEN ? AND ?"
        return self.index.one(sql, bytes.fromhex(task_id), start_s, end_s) or 0.0

    def _origin(self, task_id: str, depth: int) -> why.TaskFacts | None:
        text = self.index.one(
            "SELECT json_extract(facts, '$.origin') FROM failures WHERE task_id = ? ORDER BY attempt DESC",
            bytes.fromhex(task_id),
        )
        return self.task(str(text), depth + 1) if text and depth < _DEPTH_MAX and text != task_id else None

    # ------------------------------------------------------------------ all else
    def end(self, worker_id: str) -> why.ProcessEnd | None:
        """How a process ended; None if it lives, or no record has it."""
        text = self.index.one("SELECT json FROM facts WHERE kind = 'worker' AND subject = ?", worker_id)
        if text is None:
            return None
        facts = json.loads(text)
        row = facts["row"]
        if worker_id in unended.killed_drivers(self.index):
            row.update(exit_type="SYSTEM_ERROR", exit_detail=unended.KILLED)
        return why.ProcessEnd(
            worker_id,
            row.get("pid") or 0,
            row.get("exit_type") or "",
            row.get("exit_detail") or facts.get("reason") or "",
            facts.get("last_task", ""),
            facts.get("last_line", ""),
            facts.get("facts") or {},
        )

    def worker(self, worker_id: str) -> why.Facts:
        """The facts of a process: how it ended, or what it runs."""
        end = self.end(worker_id)
        if end is not None:
            return end
        [(pid, begun, role, line)] = self.index.rows(
            "SELECT pid, begun, role, line FROM processes WHERE process_id = ?", bytes.fromhex(worker_id)
        )
        if begun and self.is_running:
            return self.task(begun.hex())
        state = "RUNNING" if self.is_running else "ENDED WITH ITS SESSION"
        detail = f"a {role} that has begun no task" if self.is_running else "no record says how it ended"
        return why.ProcessEnd(worker_id, pid, state, detail, begun.hex() if begun else "", line or "")

    def actor(self, actor_id: str, depth: int = 0) -> why.ActorFacts:
        """The facts of an actor."""
        row = self.actors.get(actor_id)
        if row is None:
            return why.ActorFacts(actor_id, "?", "UNKNOWN")
        context: JsonObject = next(iter((row.get("death_cause") or {}).values()), {})
        cause = context.get("error_message") or context.get("formatted_exception_string") or ""
        state = row["state"] if self.is_running or row["state"] == "DEAD" else "DEAD"
        home = self.index.rows(
            "SELECT process_id FROM processes WHERE actor_id = ? ORDER BY id DESC LIMIT 1",
            bytes.fromhex(actor_id),
        )
        creation = self.task(actor_id, depth + 1) if depth < 2 and self._tasks_like(actor_id) else None
        shortage = ""
        if state not in ("ALIVE", "DEAD"):
            shortage, _ = self._shortage(row)
        return why.ActorFacts(
            actor_id,
            row["class_name"],
            state,
            row.get("name") or "",
            row.get("pid") or 0,
            row.get("num_restarts") or 0,
            cause or ("the session ended" if state != row["state"] else ""),
            creation,
            self.end(home[0][0].hex()) if home else None,
            row.get("call_site") or "",
            shortage,
            sum(each.get("actor") == actor_id for each in self.told.values()),
            self._calls(actor_id) if state == "ALIVE" and not depth else (),
            *self._answered(actor_id),
        )

    def _calls(self, actor_id: str) -> list[str]:
        """The calls that an actor runs, in words."""
        wanted = [("actor_id", "=", actor_id), ("state", "=", "RUNNING")]
        rows, _ = self.query.rows(wanted, _HOLDERS, self.unfinished, detail=False)
        began = [(row.get("start_time_ms") or 0) / 1000 for row in rows]
        return [
            f"{row['name']}() {row['task_id']}, for {in_words(max(0.0, self.now - start))}"
            for row, start in zip(rows, began)
        ]

    def _answered(self, actor_id: str) -> tuple[int, int]:
        """How many calls of an actor have ended, and how many of them failed."""
        [(ended, failed)] = self.index.rows(
            "SELECT sum(c.count), sum(c.count * c.failed) FROM counts c JOIN processes p ON p.id = c.process "
            "WHERE c.kind = 2 AND p.actor_id = ?",
            bytes.fromhex(actor_id),
        )
        return ended or 0, failed or 0

    def object(self, object_id: str) -> why.ObjectFacts:
        """The facts of an object."""
        task = object_id[:_TASK_CHARS]
        [row] = self.index.dicts("SELECT * FROM objects WHERE object_id = ?", object_id)[:1] or [{}]
        size, site = row.get("size_bytes") or 0, row.get("call_site") or ""
        if self._tasks_like(task):
            holders = self._references(object_id) if size else ()
            return why.ObjectFacts(
                object_id, self.task(task), site, size, "", holders, self._moves(object_id)
            )
        if not row:
            return why.ObjectFacts(object_id)
        by = f"the {row['role']} with pid {row['pid']}"
        holders = self._references(object_id)
        return why.ObjectFacts(object_id, None, site, size, by, holders, self._moves(object_id))

    def _references(self, object_id: str) -> list[str]:
        """Which processes of a running session hold an object, in words."""
        if not self.opened.is_live or self.opened.info is None:
            return []
        picture = memory.collect(self.opened.ask, self.opened.path, self.opened.info.shm_root)
        return [
            f"the {each.who.kind} with pid {each.who.pid} ({each.reference.kind})"
            for each in picture.holdings
            if each.reference.object_id == object_id
        ]

    def _moves(self, object_id: str) -> str:
        """How often an object went to disk and came back."""
        moves = [
            each for (each,) in self.index.rows("SELECT kind FROM spills WHERE object_id = ?", object_id)
        ]
        if not moves:
            return ""
        return f"times that it was spilled to disk: {moves.count('spill')}, and restored: {moves.count('restore')}"

    def job(self, job_id: str) -> why.JobFacts:
        """The facts of a job."""
        row = self.jobs[job_id]
        number = bytes.fromhex(job_id)
        counts: Counter[str] = Counter()
        for failed, count in self.index.rows(
            "SELECT c.failed, sum(c.count) FROM counts c JOIN processes p ON p.id = c.process WHERE p.job_id = ? "
            "GROUP BY c.failed",
            number,
        ):
            counts["FAILED" if failed else "FINISHED"] = count
        of_job = (
            "FROM attempts a JOIN processes p ON p.process_id = substr(a.task_id, 1, 8) WHERE a.flags & 1 "
            "AND NOT a.flags & 4 AND p.job_id = ?"
        )
        counts["FAILED"] += self.index.one(f"SELECT count(*) {of_job} AND a.process IS NULL", number) or 0
        owners = {
            id_.hex()
            for (id_,) in self.index.rows("SELECT process_id FROM processes WHERE job_id = ?", number)
        }
        counts.update(
            row["state"]
            for row in self.query.unfinished(self.unfinished)
            if row["task_id"][:_WORKER_CHARS] in owners
        )
        failed = self.index.one(f"SELECT lower(hex(a.task_id)) {of_job} LIMIT 1", number)
        end = (row.get("end_time") or self.now * 1000) / 1000
        pid = int((row.get("driver_info") or {}).get("pid") or 0)
        ended = row["status"] == "RUNNING" and not self.is_running
        message = "its driver ended without leaving the session" if ended else ""
        worst = self.task(failed) if failed else None
        status = "ended" if ended else row["status"]
        if job_id in unended.killed_jobs(self.index):
            status, message = "failed", unended.KILLED
        took = end - (row.get("start_time") or 0) / 1000
        return why.JobFacts(job_id, status, row.get("entrypoint") or "", pid, took, message, +counts, worst)


def _same(row: JsonMapping, filters: Sequence[tuple[str, str, object]]) -> bool:
    return all((str(row.get(key)) == str(wanted)) == (predicate == "=") for key, predicate, wanted in filters)


def _wait_words(wait: WaitRow, now: float) -> str:
    site = f", at {wait.site}" if wait.site else ""
    if not wait.since_s:  # how long is not recorded
        return f"in {wait.verb}, on {wait.object_id}{site}"
    return f"in {wait.verb}() for {in_words(max(0.0, now - wait.since_s))}, on {wait.object_id}{site}"


def _held(resources: Mapping[str, float] | None, wanted: set[str]) -> str:
    """What of the wanted resources is among these, in words."""
    return ", ".join(
        f"{amount:g} {name}" for name, amount in (resources or {}).items() if name in wanted and amount
    )
