"""The records of a session as a `Run`: tasks, what every program did in order, and what the runtime itself took.

Owns the rebuilding. Of many small tasks, neighbours of one function are folded into one row, so that a run of a million
tasks is read in seconds and played in bounded memory. Which tasks a get waited for follows from the first and last of
its refs and how many there were; a task that was still running when it ended was none of them. Reads the index; runs in
the caller's process.
"""

from __future__ import annotations

import json
import time
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise

from sundog import event_facts, events
from sundog.advice.contention import held_actors, power_of, untangle
from sundog.advice.costs import costs_of, crews, set_lags, warm_ups
from sundog.advice.programs import build_programs
from sundog.advice.run import COMPUTE, Copy, FunctionLoad, LargeFunction, Program, Run, RunNode
from sundog.ids import number_of
from sundog.observe import schema
from sundog.observe.index import Index
from sundog.observe.sessions import Opened
from sundog.plain import JsonMapping, JsonObject, SqlRow, plain

NODES_MAX = 30_000
_LATE_S = 0.002


@plain(frozen=True)
class Span:
    """A get or wait."""

    process: int
    start_s: float
    end_s: float
    object: bytes
    count: int
    last: int
    site: str
    is_wait: bool
    wanted: int


@plain(frozen=True)
class _Machine:
    cpus: float
    cores: int
    memory_bytes: int
    resources: Mapping[str, float]


def read_run(opened: Opened, index: Index, now: float | None = None) -> Run:
    """The run of a session. Of a running one: until now.

    Args:
        opened: the session.
        index: its index, up to date.
        now: the present, for tests.
    """
    return _RunReader(opened, index, time.time() if now is None else now).read()


class _RunReader:
    def __init__(self, opened: Opened, index: Index, now: float) -> None:
        self.opened, self.index, self.now = opened, index, now
        self.names: dict[int, tuple[str, str]] = {
            id_: (text, code) for id_, text, code in index.rows("SELECT id, text, code FROM names")
        }
        self.processes: dict[int, tuple[bytes, int, str]] = {
            id_: (process_id, pid or 0, role or "")
            for id_, process_id, pid, role in index.rows("SELECT id, process_id, pid, role FROM processes")
        }
        self.by_id = {process_id: id_ for id_, (process_id, _, _) in self.processes.items()}
        self.nodes: list[RunNode] = []
        self._sites: dict[tuple[bytes, str], tuple[list[int], list[str]]] = {}

    def read(self) -> Run:
        self._read_sites()
        total = self.index.one("SELECT count(*) FROM attempts") or 0
        merge = max(1, -(-total // NODES_MAX))
        self._read_nodes(merge)
        jobs = self._jobs()
        began, ended = self._bounds(jobs)
        if not self.opened.is_live:
            self._read_unwritten(ended)
        self._shift(began)
        finder = Finder(self.nodes)
        copies = self._copies(finder, began)
        for copy in copies:  # the recorded time of submission is before the copy of the arguments
            if copy.node >= 0:
                self.nodes[copy.node].submit_s = min(self.nodes[copy.node].start_s, copy.at_s + copy.seconds)
        self._read_deps(finder, began)
        spans = self._spans(began)
        programs = self._programs(jobs, began, ended)
        build_programs(programs, self.nodes, spans, finder, {v: k for k, v in self.by_id.items()}, merge > 1)
        machine = self._machine()
        node_s = self._node_s(began)
        room = {**machine.resources, **crews(self.nodes)}
        set_lags(self.nodes, programs, {**room, "CPU": machine.cpus}, node_s)
        self._read_loads(programs)
        power = power_of(self.nodes, programs, machine.cores)
        untangle(self.nodes, programs, machine.cores)
        concurrent = {
            actor for (actor,) in self.index.rows("SELECT actor_id FROM processes WHERE concurrent") if actor
        }
        run = Run(
            name=self.opened.name,
            length_s=ended - began,
            began_s=began,
            cpus=machine.cpus,
            cores=machine.cores,
            memory_bytes=machine.memory_bytes,
            nodes=self.nodes,
            programs=programs,
            copies=copies,
            functions=self._functions(began),
            loads=self._loads(began),
            costs=costs_of(self.nodes, programs, node_s),
            concurrent=frozenset(concurrent),
            held=held_actors(self.nodes, frozenset(concurrent)),
            replicas=self._replicas(),
            busy=self._busy(),
            spills=self._spills(began),
            puts=self._puts(began),
            processes=self.processes,
            entrypoint=next((str(row.get("entrypoint") or "") for row in jobs.values()), ""),
            resources=room,
            merged=merge,
            tasks=total,
            missed=self.index.missed(),
            threads=self._threads(),
            largest_site=self._largest_site(),
            base_bytes=int(self.index.one("SELECT max(store_used) FROM machine") or 0),
        )
        run.warm, run.power, run.others = warm_ups(run), power, self._others(run)
        return run

    # ------------------------------------------------------------------ tasks
    def _read_nodes(self, merge: int) -> None:
        """One node for each task; with `merge`, for that many small neighbours of one function."""
        seen: dict[bytes, RunNode] = {}
        last: dict[tuple[int, bytes, int], RunNode] = {}
        leases: dict[int, Mapping[str, float]] = {}
        actors: dict[int, bytes] = dict(self.index.rows("SELECT id, actor_id FROM processes"))
        for row in self.index.db.execute(
            "SELECT task_id, attempt, kind, name, process, submit_s, start_s, end_s, flags, cpu_s, peak_bytes, lease "
            "FROM attempts ORDER BY submit_s, attempt"
        ):
            task_id, attempt, kind, name, process, submit, start, end, flags, cpu, peak, lease = row
            again = seen.get(task_id) if attempt else None
            if again is not None:
                self._again(again, row)
                continue
            text, code = self.names.get(name, ("?", ""))
            actor = (
                task_id
                if kind == events.CREATE
                else (actors.get(process) or b"")
                if kind == events.CALL
                else b""
            )
            alike = (name, actor or task_id[:8], kind)
            before = last.get(alike)
            if merge > 1 and before is not None and before.count < merge and not flags & events.FAILED:
                self._fold(before, row)
                continue
            if lease not in leases:
                leases[lease] = _resources(self.names.get(lease, ("", ""))[0])
            number = number_of(task_id)
            node = RunNode(
                len(self.nodes), task_id, text, kind, task_id[:8], number, number, submit, start, end,
                max(0.0, end - start), cpu or 0.0, peak or 0, process or 0, actor,
                self._site(task_id[:8], text, number), 1, 1, 0.0, bool(flags & events.FAILED),
                bool(flags & schema.LOST), code=code,
            )  # fmt: skip
            node.resources = leases[lease] if kind != events.CALL else {}
            if flags & schema.UNRUN:
                node.work_s = 0.0
            self.nodes.append(node)
            last[alike] = node
            if flags & events.FAILED or merge == 1:
                seen[task_id] = node

    def _read_unwritten(self, ended: float) -> None:
        """Tasks that had begun when the session ended, and whose end is not written: a worker answers before it writes.

        Such a task ended when the get that waited for it did.
        """
        known = {node.task_id for node in self.nodes}
        numbers: dict[bytes, list[tuple[int, float]]] = defaultdict(list)
        for node in self.nodes:
            numbers[node.owner].append((node.number, node.submit_s))
        for process, task_id, begun_s, name in self.index.rows(
            "SELECT id, begun, begun_s, begun_name FROM processes WHERE role = 'worker' AND begun_s > 0"
        ):
            if not task_id or task_id in known or len(task_id) < 16:
                continue
            text, code = self.names.get(name, ("?", ""))
            alike = [node for node in self.nodes if node.name == text and node.process]
            if not alike or alike[-1].kind != events.TASK:
                continue  # a call or constructor: a living actor may wait in one for ever
            owner, number = task_id[:8], number_of(task_id)
            waits = self.index.rows("SELECT max(end_s) FROM spans WHERE kind = 4 AND end_s >= ?", begun_s)
            end = min([ended, *(each for (each,) in waits if each)])
            before = [submit for each, submit in numbers[owner] if each < number]
            share = sum(node.cpu_s for node in alike) / max(1e-9, sum(node.work_s for node in alike))
            work = max(0.0, end - begun_s)
            submitted = min(begun_s, max(before, default=begun_s))
            node = RunNode(
                len(self.nodes), task_id, text, events.TASK, owner, number, number, submitted, begun_s,
                end, work, work * min(1.0, share), 0, process, b"", self._site(owner, text, number), code=code,
            )  # fmt: skip
            node.resources = alike[-1].resources
            self.nodes.append(node)

    def _again(self, node: RunNode, row: SqlRow) -> None:
        _, _, _, _, process, _, start, end, flags, cpu, peak, _ = row
        node.attempts += 1
        node.runs = (*node.ran(), (start, end, process or 0))
        node.wasted_s = node.work_s
        node.pause_s += max(0.0, start - node.end_s)
        node.work_s += max(0.0, end - start)
        node.cpu_s += cpu or 0.0
        node.end_s, node.process = max(node.end_s, end), process or node.process
        node.peak_bytes = max(node.peak_bytes, peak or 0)
        node.failed, node.lost = bool(flags & events.FAILED), bool(flags & schema.LOST)

    def _fold(self, node: RunNode, row: SqlRow) -> None:
        task_id, _, _, _, _, _, start, end, _, cpu, peak, _ = row
        node.count += 1
        node.work_s += max(0.0, end - start)
        node.cpu_s += cpu or 0.0
        node.end_s = max(node.end_s, end)
        node.start_s = min(node.start_s, start)
        node.peak_bytes = max(node.peak_bytes, peak or 0)
        node.last_number = max(node.last_number, number_of(task_id))

    def _read_sites(self) -> None:
        found: dict[tuple[bytes, str], list[tuple[int, str]]] = defaultdict(list)
        for owner, name, first, site in self.index.rows("SELECT owner, name, first, site FROM sites"):
            found[owner, name].append((first, site))
        for key, rows in found.items():
            rows.sort()
            self._sites[key] = ([first for first, _ in rows], [site for _, site in rows])

    def _site(self, owner: bytes, name: str, number: int) -> str:
        known = self._sites.get((owner, name))
        if known is None:
            return ""
        position = bisect_right(known[0], number) - 1
        return known[1][position] if position >= 0 else ""

    def _shift(self, began: float) -> None:
        for node in self.nodes:
            node.submit_s -= began
            node.start_s -= began
            node.end_s -= began
            node.runs = tuple((start - began, end - began, process) for start, end, process in node.runs)

    def _read_deps(self, finder: Finder, began: float) -> None:
        found: dict[int, set[int]] = defaultdict(set)
        rows: dict[bytes, list[int]] = defaultdict(list)
        ready: dict[bytes, float] = {}
        for task_id, ready_s, number in self.index.rows(
            "SELECT task_id, ready_s, made_by FROM ready WHERE made_by > 0"
        ):
            rows[task_id].append(number)
            ready[task_id] = ready_s - began
        for task_id, numbers in rows.items():
            node = finder.of(task_id[:8], number_of(task_id))
            if node is None:
                continue
            makers = [finder.of(task_id[:8], number) for number in numbers]
            if len(numbers) >= event_facts.DEPS_RECORDED:
                makers += _further(finder, task_id[:8], numbers, ready[task_id])
            for maker in makers:
                if maker is not None and maker.key != node.key and maker.end_s <= node.start_s + _LATE_S:
                    found[node.key].add(maker.key)
        for key, makers_ in found.items():
            self.nodes[key].deps = tuple(sorted(makers_))

    # ------------------------------------------------------------------ drivers, gets, copies
    def _jobs(self) -> dict[bytes, dict[str, object]]:
        """The newest row of each job, by its driver."""
        found: dict[bytes, dict[str, object]] = {}
        for (text,) in self.index.rows("SELECT json FROM facts WHERE kind = 'job' ORDER BY at_s"):
            facts = json.loads(text)
            if facts.get("driver"):
                found[bytes.fromhex(facts["driver"])] = facts["row"]
        return found

    def _bounds(self, jobs: Mapping[bytes, JsonMapping]) -> tuple[float, float]:
        begins = [row["start_time"] / 1000 for row in jobs.values() if row.get("start_time")]
        ends = [row["end_time"] / 1000 for row in jobs.values() if row.get("end_time")]
        first = self.index.one("SELECT min(submit_s) FROM attempts")
        last = self.index.one(
            "SELECT max(e) FROM (SELECT max(end_s) e FROM attempts UNION SELECT max(end_s) FROM spans)"
        )
        if first is not None:
            begins.append(first)
        # The node may learn of a driver after init() has returned there.
        begins += [told["joined_s"] for told in self._used().values() if told.get("joined_s")]
        began = min(begins, default=self.now)
        if self.opened.is_live and len(ends) < len(jobs):
            return began, max(self.now, began)
        return began, max([*ends, last or began, began])

    def _node_s(self, began: float) -> float:
        """When the node knew of the first driver: init() returns before that, and no worker starts before that."""
        met = self.index.one("SELECT min(at_s) FROM facts WHERE kind = 'job'")
        first = min((node.start_s for node in self.nodes if node.process), default=0.0)
        return max(0.0, min(met - began, first)) if met is not None else 0.0

    def _programs(self, jobs: Mapping[bytes, JsonMapping], began: float, ended: float) -> list[Program]:
        found = []
        first: dict[bytes, float] = {}
        for node in self.nodes:
            first.setdefault(node.owner, node.submit_s)  # in order of submission; since the run began
        for id_, (process_id, _, role) in self.processes.items():
            if role != "driver":
                continue
            row = jobs.get(process_id, {})
            begin = (row.get("start_time") or 0) / 1000 or began
            end = (row.get("end_time") or 0) / 1000 or ended
            # The node may learn of a driver after its first submission.
            told = self._used().get(process_id.hex(), {}).get("joined_s")
            joined = told - began if told else begin - began
            first_s = min(max(0.0, begin - began), joined, first.get(process_id, joined))
            found.append(Program(id_, first_s, max(begin, end) - began, [], joined_s=joined if told else 0.0))
        return found

    def _used(self) -> dict[str, JsonObject]:
        """What each driver said of its own time, at its end or in answer to a command."""
        rows = self.index.rows("SELECT subject, json FROM facts WHERE kind = 'used' ORDER BY at_s")
        return {subject: json.loads(text) for subject, text in rows}

    def _read_loads(self, programs: list[Program]) -> None:
        """How much of its own time each driver used a core, and how much of it others had the cores."""
        used = self._used()
        for program in programs:
            own = sum(op.seconds for op in program.ops if op.kind == COMPUTE)
            told = used.get(self.processes[program.process][0].hex(), {})
            cpu_s = float(told.get("cpu_s", own))  # unknown: as if it computed
            program.load = min(1.0, cpu_s / own) if own > 0 else 0.0
            if "queued_s" in told and own > 0:
                program.crowded = min(1.0 - program.load, float(told["queued_s"]) / own)

    def _spans(self, began: float) -> list[Span]:
        return [
            Span(
                process, start - began, end - began, object_, count or 1, last or number_of(object_[:16]),
                self.names.get(site, ("", ""))[0], kind == events.WAIT, flags or 1,
            )
            for kind, process, start, end, object_, count, last, site, flags in self.index.db.execute(
                "SELECT kind, process, start_s, end_s, object, count, last, site, flags FROM spans "
                "WHERE kind IN (4, 6) ORDER BY start_s"
            )
        ]  # fmt: skip

    def _copies(self, finder: Finder, began: float) -> list[Copy]:
        found = []
        for start, end, task_id, size, mark, site in self.index.rows(
            "SELECT start_s, end_s, object, size_bytes, last, site FROM spans WHERE kind = 5 AND flags & 1 "
            "ORDER BY start_s"
        ):
            node = finder.of(task_id[:8], number_of(task_id))
            place = self.names.get(site, ("", ""))[0]
            key = node.key if node is not None else -1
            found.append(Copy(key, task_id[:8], end - start, size, mark, place, start - began))
        return found

    def _functions(self, began: float) -> list[LargeFunction]:
        rows = self.index.rows("SELECT at_s, json FROM facts WHERE kind = 'function' ORDER BY at_s")
        found = [(at_s, json.loads(text)) for at_s, text in rows]
        return [
            LargeFunction(str(each["name"]), int(each["bytes"]), float(each["seconds"]), at_s - began)
            for at_s, each in found
        ]

    def _loads(self, began: float) -> list[FunctionLoad]:
        rows = self.index.rows("SELECT at_s, subject, json FROM facts WHERE kind = 'loaded' ORDER BY at_s")
        found = [
            (at_s, self.by_id.get(bytes.fromhex(subject), 0), json.loads(text))
            for at_s, subject, text in rows
        ]
        return [
            FunctionLoad(
                str(each["name"]),
                process,
                float(each["seconds"]),
                at_s - began,
                int(each.get("imported") or 0),
            )
            for at_s, process, each in found
        ]

    def _spills(self, began: float) -> list[tuple[float, float, int, str]]:
        rows = self.index.rows(
            "SELECT at_s, kind, json FROM facts WHERE kind IN ('spill', 'restore') ORDER BY at_s"
        )
        found = [(at_s, kind, json.loads(text)) for at_s, kind, text in rows]
        return [
            (at_s - began, float(each.get("seconds") or 0.0), int(each.get("bytes") or 0), kind)
            for at_s, kind, each in found
        ]

    def _puts(self, began: float) -> list[tuple[float, float, int, str]]:
        """Puts of values into the store: from when to when, their bytes, and where."""
        rows = self.index.rows(
            "SELECT start_s, end_s, size_bytes, site FROM spans WHERE kind = 5 AND NOT flags & 1 ORDER BY start_s"
        )
        return [
            (start - began, end - began, size, self.names.get(site, ("", ""))[0])
            for start, end, size, site in rows
            if size
        ]

    def _largest_site(self) -> str:
        """The line that put most bytes into the store."""
        site = self.index.one(
            "SELECT site FROM spans WHERE kind = 5 GROUP BY site ORDER BY sum(size_bytes) DESC LIMIT 1"
        )
        return self.names.get(site, ("", ""))[0] if site else ""

    def _replicas(self) -> dict[bytes, str]:
        """Actors that serve requests, with the application and deployment that they are of."""
        rows = self.index.rows(
            "SELECT actor_id, actor_name FROM processes WHERE actor_name LIKE 'SERVE_REPLICA::%'"
        )
        return {
            actor: name.removeprefix("SERVE_REPLICA::").rpartition("#")[0] for actor, name in rows if actor
        }

    def _busy(self) -> dict[int, float]:
        """Of a core, what each process used while something ran in it."""
        rows = self.index.rows(
            "SELECT process, max(cpu_s) - min(cpu_s), max(at_s) - min(at_s) FROM samples GROUP BY process"
        )
        return {
            process: used / took for process, used, took in rows if took and took > 0 and used is not None
        }

    def _threads(self) -> dict[str, int]:
        """The most threads that a process was seen with, by the function that it ran."""
        rows = self.index.rows(
            "SELECT n.text, max(s.threads) FROM samples s JOIN attempts a ON a.task_id = s.task_id "
            "LEFT JOIN names n ON n.id = a.name WHERE s.threads > 0 GROUP BY a.name"
        )
        return {name: threads for name, threads in rows if name}

    # ------------------------------------------------------------------ the machine
    def _others(self, run: Run) -> float:
        """The share of all cores that was used meanwhile, less what the tasks and programs of this run used."""
        used = self.index.one(
            "SELECT avg(cpu) FROM machine WHERE at_s BETWEEN ? AND ?", run.began_s, run.began_s + run.length_s
        )
        own = sum(node.cpu_s for node in run.nodes)
        own += sum(each.load * op.seconds for each in run.programs for op in each.ops if op.kind == COMPUTE)
        return max(0.0, (used or 0.0) - own / max(1e-9, run.cores * run.length_s))

    def _machine(self) -> _Machine:
        totals: dict[str, float] = defaultdict(float)
        cores = 0
        for (text,) in self.index.rows(
            "SELECT json FROM facts WHERE kind = 'node' GROUP BY subject HAVING max(at_s)"
        ):
            facts = json.loads(text)
            for name, amount in (facts["row"].get("resources_total") or {}).items():
                totals[name] += float(amount)
            cores = max(cores, int(facts.get("cores") or 0))
        memory = self.index.one("SELECT max(memory_total) FROM machine") or 0
        cpus = totals.pop("CPU", 0.0)
        totals.pop("object_store_memory", None)
        return _Machine(cpus or 1.0, cores or int(cpus) or 1, int(memory), dict(totals))


class Finder:
    """Finds the node of a task by its owner and number."""

    def __init__(self, nodes: list[RunNode]) -> None:
        self._by_owner: dict[bytes, tuple[list[int], list[RunNode]]] = {}
        found: dict[bytes, list[RunNode]] = defaultdict(list)
        for node in nodes:
            found[node.owner].append(node)
        for owner, own in found.items():
            own.sort(key=lambda node: node.number)
            self._by_owner[owner] = ([node.number for node in own], own)

    def of(self, owner: bytes, number: int) -> RunNode | None:
        """The node that a task is in; None if it is no task, or not recorded."""
        numbers, own = self._by_owner.get(owner, ([], []))
        position = bisect_right(numbers, number) - 1
        for each in range(position, max(-1, position - 64), -1):
            if own[each].number <= number <= own[each].last_number:
                return own[each]
        return None

    def between(self, owner: bytes, first: int, last: int) -> Iterator[RunNode]:
        """The nodes of an owner from one number to another."""
        numbers, own = self._by_owner.get(owner, ([], []))
        start = max(0, bisect_left(numbers, first))
        if start > 0 and own[start - 1].last_number >= first:
            start -= 1
        for each in range(start, bisect_right(numbers, last)):
            yield own[each]


def _further(finder: Finder, owner: bytes, numbers: list[int], ready_s: float) -> list[RunNode | None]:
    """Makers of arguments behind those that are recorded, of a task that takes many.

    Where the arguments were there later than the recorded makers had ended, tasks of the same function made the others,
    at the same distance from one to the next.
    """
    known = [node for number in numbers if (node := finder.of(owner, number)) is not None]
    steps = {after - before for before, after in pairwise(numbers)}
    if len(steps) != 1 or not known or max(node.end_s for node in known) >= ready_s - _LATE_S:
        return []
    step, number, name = steps.pop(), numbers[-1], known[-1].name
    found: list[RunNode | None] = []
    while step > 0:
        number += step
        node = finder.of(owner, number)
        if node is None or node.name != name or node.end_s > ready_s + _LATE_S:
            break
        found.append(node)
    return found


def _resources(lease: str) -> Mapping[str, float]:
    try:
        found = json.loads(lease).get("resources") or {}
    except (ValueError, AttributeError):
        return {}
    return {str(name): float(amount) for name, amount in found.items() if amount}
