"""Home: takes in what the processes of a job recorded, into an ordinary session folder on the driver's node.

::

    rings on this node ──read──►┐
    pushes of other nodes ─────►├── clocks corrected, owners filled in ──► records/*.seg, rings/*.ring.names
    what a sweep found ────────►┘

Owns the session's folder while the job runs. One actor for each job, without a shim and without a CPU; on the
driver's node and nowhere else, for an actor keeps Ray's autoscaler from ending its node. Runs in its own process:
calls of Ray's, and one thread that reads the rings of this node.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import threading
import time
from struct import Struct
from typing import TYPE_CHECKING

from sundog import event_names, events
from sundog.config import Config
from sundog.observe import segments
from sundog.ray_engine import demand, residents
from sundog.ray_engine.matches import Fields, Matches, Out, RecordSource, Submission
from sundog.ray_engine.pushes import Clock, Push, process_of, read_push, rings_in
from sundog.ray_engine.told import Told

if TYPE_CHECKING:
    from sundog.plain import JsonObject

_UNFINISHED_MAX = 10_000
_SELDOM = 5  # rounds: each node is asked on a connection of its own, and Ray for all actors of the job
_NO_PLACE = ("", "@?")
_BEGUN, _BEGUN_AT = Struct("<16sd"), 16  # in a ring's header: the task that began last, and when


class ClusterChronicle:
    """The records of a job, as they come in. Knows nothing of Ray."""

    def __init__(self, path: str, node: str, config: Config) -> None:
        self.path = path
        self.matches = Matches()
        self.sources: dict[bytes, RecordSource] = {}
        self.clocks: dict[str, Clock] = {node: Clock(0.0, 0.0)}
        self._notes: list[tuple[RecordSource, str, JsonObject]] = []
        self._writer = segments.Writer(
            path, bytes.fromhex(node)[:16], config.record_events_max, config.record_age_s
        )

    def clock(self, node: str, clock: Clock) -> None:
        """What a process found out about the clock of its node; the shortest way counts."""
        if clock.trip_s <= self.clocks.get(node, Clock(9e9, 0.0)).trip_s:
            self.clocks[node] = clock

    def positions(self) -> dict[str, tuple[int, int]]:
        """How far each ring was taken in."""
        return {each.process_id.hex(): (each.after, each.names_at) for each in self.sources.values()}

    # ------------------------------------------------------------------ taking in
    def take(self, push: Push) -> None:
        """What is new of a process; what came before is passed over."""
        source = self.source(push.facts)
        ahead_s = self.clocks.get(source.node, Clock(0.0, 0.0)).ahead_s
        self._take_names(source, push.names[max(0, source.names_at - push.names_at) :])
        self._take_events(source, push, ahead_s)
        self._write_header(source, push.header, ahead_s)

    def _take_events(self, source: RecordSource, push: Push, ahead_s: float) -> None:
        """The events of a push: thousands in a flood of short calls, on cores that the calls need."""
        skip = max(0, source.after + 1 - push.first)
        expected = push.first + skip
        source.lost += max(0, expected - 1 - source.after)
        rows: list[Fields] = []
        waited: list[Out] = []
        process_id, matches = source.process_id, self.matches
        for fields in events.EVENT.iter_unpack(push.data[skip * events.EVENT_BYTES :]):
            if fields[10] == expected:
                event = fields[:10] if not ahead_s else _shifted(fields, ahead_s)
                if event[5] == events.SITE:
                    mark = source.names.get(event[4], _NO_PLACE)[1]
                    waited += matches.submitted(event[0][8:], event[0][:8], event[1], mark[1:])
                    rows.append(event)
                else:
                    told = matches.told(process_id, event)
                    if told is not None:
                        rows.append(told)
            else:
                source.lost += 1
            expected += 1
        source.after = max(source.after, expected - 1)
        self.write(process_id, rows)
        self.write_all(waited)

    def source(self, facts: JsonObject) -> RecordSource:
        """A process, by what is told of it."""
        process_id = bytes.fromhex(facts["process"])
        found = self.sources.get(process_id)
        if found is None:
            job = bytes.fromhex(facts["job"])
            found = RecordSource(process_id, facts["node"], int(facts["pid"]), facts["role"], job)
            self.sources[process_id] = found
        return found

    def _take_names(self, source: RecordSource, data: bytes) -> None:
        if not data:
            return
        source.names_at += len(data)
        names, notes, _ = event_names.parse(data)
        for number, text, code, _ in names:
            source.names[number] = (text, code)
        lines = [line for line in data.splitlines(keepends=True) if line[:1].isdigit()]
        self._append_names(source, b"".join(lines))
        self._notes += [(source, kind, facts) for kind, facts in notes]
        self._write_notes(everything=False)

    def _write_notes(self, *, everything: bool) -> None:
        """Notes of tasks whose owner is known by now."""
        left = []
        for source, kind, facts in self._notes:
            task = self.matches.id_of(bytes.fromhex(facts.get("task", "")))
            if task[:8] == bytes(8) and task and not everything:
                left.append((source, kind, facts))
                continue
            told = {**facts, "task": task.hex()} if task else facts
            self._append_names(source, event_names.note_line(kind, told))
        self._notes = left

    def _append_names(self, source: RecordSource, data: bytes) -> None:
        with open(f"{self._ring(source)}.names", "ab") as file:
            file.write(data)

    def _ring(self, source: RecordSource) -> str:
        return f"{self.path}/rings/{source.process_id.hex()}.ring"

    def _write_header(self, source: RecordSource, header: bytes, ahead_s: float) -> None:
        """A ring without events: the ids of the process, and what it began last."""
        (task, at_s) = _BEGUN.unpack_from(header, _BEGUN_AT)
        begun = bytearray(header)
        _BEGUN.pack_into(begun, _BEGUN_AT, self.matches.id_of(task), at_s - ahead_s if at_s else 0.0)
        made = bytes(begun)
        if made == source.header:
            return  # idle
        source.header = made
        ring = self._ring(source)
        with open(f"{ring}.new", "wb") as file:
            file.write(made + bytes(events.EVENT_BYTES))
        os.replace(f"{ring}.new", ring)

    # ------------------------------------------------------------------ writing
    def write_all(self, out: list[Out]) -> None:
        """Append events of several processes to the session's records."""
        by_process: dict[bytes, list[Fields]] = {}
        for process_id, fields in out:
            by_process.setdefault(process_id, []).append(fields)
        for process_id, rows in by_process.items():
            self.write(process_id, rows)

    def write(self, process_id: bytes, rows: list[Fields]) -> None:
        """Append events of a process to the session's records."""
        if not rows:
            return
        source, pack = self.sources[process_id], events.EVENT.pack
        first = source.written + 1
        self._writer.append(
            segments.EVENTS,
            b"".join([pack(*fields, number) for number, fields in enumerate(rows, first)]),
            process_id,
            pid=source.pid,
            role=source.role,
            job_id=source.job,
            first=first,
            unwritten=source.lost,
        )
        source.written += len(rows)
        for path in self._writer.surplus():
            with contextlib.suppress(OSError):
                os.unlink(path)
            self._writer.removed(path)

    def fact(self, kind: str, subject: str, **facts: object) -> None:
        """Append a fact."""
        line = json.dumps({"fact": kind, "s": time.time(), "subject": subject, **facts}, default=str)
        self._writer.append(segments.FACTS, line.encode() + b"\n", bytes(8))

    def close_with(self, told: list[Told]) -> int:
        """Rows of runs that no record came of, from what Ray tells; how many there were."""
        added = 0
        for each in told:
            known = self.matches.known.get(each.unique)
            if known is None or known.ended >> min(each.attempt, 62) & 1:
                continue
            source = self.source(each.facts)
            source.lost += 1
            ahead_s = self.clocks.get(source.node, Clock(0.0, 0.0)).ahead_s
            flags = events.TOLD | (events.FAILED if each.error else 0)
            name = self._named(source, each.name or known.name)
            fields = (
                bytes(8) + each.unique,
                0.0,
                each.start_s - ahead_s if each.by_worker else each.start_s,
                each.end_s,
                name,
                each.kind,
                flags,
                each.attempt,
                0.0,
                0.0,
            )
            row = self.matches.told(source.process_id, fields)
            self.write(source.process_id, [] if row is None else [row])
            if each.error:
                task = (known.owner + each.unique).hex()
                note = {"task": task, "attempt": each.attempt, "type": each.error, "message": each.message}
                self._append_names(source, event_names.note_line("error", note))
            added += 1
        return added

    def _named(self, source: RecordSource, name: str) -> int:
        """The number of a name in the records of a process that has ended, which cannot number the name itself."""
        for number, (text, code) in source.names.items():
            if text == name and not code.startswith("@"):
                return number
        number = max(source.names, default=0) + 1
        source.names[number] = (name, "")
        self._append_names(source, f"{number}\t{name!r}\t\n".encode())
        if not source.names_at:  # no record of this process ever arrived: even its node is unknown
            self._append_names(source, event_names.note_line("home", {"node": source.node}))
        if not os.path.exists(self._ring(source)):
            with open(self._ring(source), "wb") as file:
                file.write(events.header_of(source.pid, source.role) + bytes(events.EVENT_BYTES))
        return number

    def finish(self) -> None:
        """No more records come: write the waiting events as they are."""
        self.write_all(self.matches.give_up())
        self._write_notes(everything=True)
        self._writer.close()


def _shifted(fields: events.RawEvent, ahead_s: float) -> Fields:
    """An event without its number, by the clock of Home."""
    task, submit_s, start_s, end_s, name, kind, flags, attempt, cpu_s, own_bytes, _ = fields
    start_s -= ahead_s
    submit_s = start_s if kind == events.SITE else submit_s
    return task, submit_s, start_s, end_s - ahead_s, name, kind, flags, attempt, cpu_s, own_bytes


_ON_PURPOSE = {  # Ray's reasons, by their numbers
    1: "The node was told to leave.",
    3: "The autoscaler ended it: its machine was to be taken away.",
    4: "The autoscaler ended it: it was idle.",
}


def node_row(told: JsonObject) -> JsonObject:
    """A node as Ray tells it, as a row of the state API."""
    number = told.get("DeathReason")
    reason = _ON_PURPOSE.get(number) if isinstance(number, int) else None
    said = reason or told.get("DeathReasonMessage") or "The node is gone."
    now_ms = int(time.time() * 1000)
    return {
        "node_id": told["NodeID"],
        "node_ip": told.get("NodeManagerAddress", ""),
        "is_head_node": "node:__internal_head__" in told.get("Resources", {}),
        "state": "ALIVE" if told["Alive"] else "DEAD",
        "state_message": None if told["Alive"] else str(said),
        "is_ended": reason is not None and not told["Alive"],
        "node_name": told.get("NodeName", ""),
        "resources_total": told.get("Resources", {}),
        "labels": told.get("Labels", {}),
        "start_time_ms": now_ms if told["Alive"] else 0,
        "end_time_ms": 0 if told["Alive"] else now_ms,
    }


def unfinished_row(unique: bytes, each: Submission) -> JsonObject:
    """A task that has not ended, as `observe.task_states` wants to be told of it."""
    method = each.name.rpartition(".")[2] if "." in each.name else ""
    kind = "task" if not method else "actor_creation" if method == "__init__" else "actor_task"
    return {
        "task": (each.owner + unique).hex(),
        "owner": each.owner.hex(),
        "attempt": 0,
        "name": each.name,
        "function": each.name,
        "kind": kind,
        "actor": "",
        "resources": {},
        "pg": "",
        "submit_s": each.submit_s,
        # it may run already: then it is the task that its process began last
        "state": "PENDING_NODE_ASSIGNMENT",
        "missing": [],
    }


class Home:
    """The actor."""

    def __init__(self, path: str, identity: JsonObject, folder: str, config: Config) -> None:
        node: str = identity["node"]
        self._job: str = identity["job"]
        self._chronicle = ClusterChronicle(path, node, config)
        self._folder = folder
        self._lock = threading.Lock()
        self._nodes: dict[str, str] = {}
        self._dead: list[JsonObject] = []
        self._watch = demand.Watch()
        self._residents = residents.Residents()
        self._spilled: dict[str, int] = {}
        self._began = time.time()
        self._pauses: dict[str, JsonObject] = {}
        self._numbers = itertools.count(1)
        self._early: dict[str, list[Push]] = {}
        self._stopped = threading.Event()
        threading.Thread(
            target=self._run, args=(config.push_interval_s,), name="sundog-home", daemon=True
        ).start()

    def _run(self, every_s: float) -> None:
        rounds = itertools.count(1)
        while not self._stopped.wait(every_s):
            self.read()
            with contextlib.suppress(Exception):  # Ray may be about to end
                self.look_at_nodes()
                self.look_at_demand()
                if next(rounds) % _SELDOM == 0:
                    self.look_at_stores()
                    self.look_at_residents()

    def look_at_nodes(self) -> None:
        """Note which nodes came and went."""
        import ray

        for each in ray.nodes():
            state = "ALIVE" if each["Alive"] else "DEAD"
            if self._nodes.get(each["NodeID"]) != state:
                known = self._nodes.get(each["NodeID"])
                self._nodes[each["NodeID"]] = state
                row = node_row(each)
                if state == "DEAD" and known is None:
                    continue  # the worker was gone before this job began
                with self._lock:
                    self._chronicle.fact("node", each["NodeID"], row=row)
                    if state == "DEAD":
                        self._dead.append(row)

    def look_at_stores(self) -> None:
        """Note which nodes spill objects to their disks."""
        for node, spilled in demand.spilled_bytes(self._spilled).items():
            self._spilled[node] = spilled
            with self._lock:
                self._chronicle.fact("store", node, spilled_bytes=spilled)

    def look_at_residents(self) -> None:
        """Note which actors of this job are new or have changed, and which of its workers have ended."""
        actors, workers = residents.ask_actors(self._job), residents.ask_workers()
        with self._lock:
            for row in self._residents.changed(actors, self._chronicle.matches.id_of):
                self._chronicle.fact("actor", row["actor_id"], row=row)
            for row in self._residents.ended(workers, self._chronicle.sources.keys()):
                self._chronicle.fact("worker", row["worker_id"], row=row)

    def look_at_demand(self) -> None:
        """Note what waits for resources, and which nodes the autoscaler starts."""
        import ray

        found = demand.look(ray.get_runtime_context().gcs_address)
        with self._lock:
            if self._watch.note(found, time.time()):
                told = {name: found[name] for name in ("pending", "starting", "launches")}
                self._chronicle.fact("demand", "", nodes=len(found["nodes"]), **told)

    def read(self) -> None:
        """Take in what is new in the rings of this node."""
        with self._lock:
            known = self._chronicle.positions()
            # Drivers before workers: then most submissions are known when their runs are read.
            for ring in rings_in(self._folder):
                push = read_push(ring, *known.get(process_of(ring), (0, 0)))
                if push is not None:
                    self._chronicle.take(push)

    def push(self, push: Push, clock: Clock | None) -> float:
        """What is new of a process on another node; returns the time here."""
        wall_s = time.time()
        with self._lock:
            if clock is not None:
                self._chronicle.clock(push.facts["node"], clock)
            if clock is not None or push.facts["node"] in self._chronicle.clocks:
                self._chronicle.take(push)
            else:
                self._early.setdefault(push.facts["node"], []).append(push)  # kept until its clock is known
        return wall_s

    def clock(self, node: str, clock: Clock) -> None:
        """The first that is known of a node's clock."""
        with self._lock:
            self._chronicle.clock(node, clock)
            for push in self._early.pop(node, []):
                self._chronicle.take(push)

    # ------------------------------------------------------------------ breakpoints
    def paused(self, row: JsonObject) -> None:
        """A task stands at a breakpoint."""
        with self._lock:
            task = self._chronicle.matches.id_of(bytes.fromhex(row["task"]))
            self._pauses[row["id"]] = {**row, "task": task.hex(), "number": next(self._numbers)}

    def resumed(self, id_: str) -> None:
        """A user is at its prompt."""
        with self._lock:
            self._pauses.pop(id_, None)

    def pauses(self) -> list[dict[str, object]]:
        """The tasks that wait for a user."""
        with self._lock:
            return list(self._pauses.values())

    # ------------------------------------------------------------------ the driver asks
    def positions(self) -> dict[str, tuple[int, int]]:
        """How far each ring was taken in."""
        with self._lock:
            return self._chronicle.positions()

    def processes(self) -> list[dict[str, object]]:
        """The processes that are known."""
        with self._lock:
            return [
                {"process": each.process_id.hex(), "node": each.node, "pid": each.pid, "role": each.role}
                for each in self._chronicle.sources.values()
            ]

    def status(self) -> JsonObject:
        """What the cluster has and what waits there, for `sundog status`."""
        with contextlib.suppress(Exception):  # the last reading is good enough
            self.look_at_nodes()
            self.look_at_demand()
            self.look_at_residents()
        with self._lock:
            roles = [each.role for each in self._chronicle.sources.values()]
            facts = {
                "uptime_s": time.time() - self._began,
                "drivers": [{"role": "driver"}] * roles.count("driver"),
                "workers": {"seen": roles.count("worker")} if "worker" in roles else {},
                "actors": self._residents.by_state(),
            }
            return demand.standing(self._watch, self._dead, facts)

    def unfinished(self) -> list[JsonObject]:
        """The submitted tasks of which no run has ended, in the form in which an owner reports its tasks."""
        with self._lock:
            found = itertools.islice(self._chronicle.matches.unfinished().items(), _UNFINISHED_MAX)
            return [unfinished_row(unique, each) for unique, each in found]

    def take(self, pushes: list[Push]) -> None:
        """What a sweep found."""
        with self._lock:
            for push in pushes:
                self._chronicle.take(push)

    def wanting(self) -> bool:
        """Whether there are tasks of which no record of a run came."""
        with self._lock:
            return bool(self._chronicle.matches.unfinished())

    def close(self, told: list[Told]) -> int:
        """The end: what Ray tells of runs that no record came of, marked as such; how many there were."""
        self._stopped.set()
        self.read()
        with self._lock:
            added = self._chronicle.close_with(told)
            self._chronicle.finish()
            return added

    def id_of(self, unique: str) -> str:
        """The whole id of a task, in hexadecimal."""
        with self._lock:
            return self._chronicle.matches.id_of(bytes(8) + bytes.fromhex(unique)).hex()
