"""Raw events, names and facts on their way into the index: each becomes a row.

Owns what an event means, kind by kind (`events.py` has the layout), and which events of a process are new. Refuses:
files of segments and the position in them, which are `observe.index`'s. Runs within one transaction of the index.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import struct
from collections.abc import Callable, Iterable
from operator import sub

from sundog import event_facts, event_names, events
from sundog.observe import answered, schema
from sundog.observe.ledger import Ledger
from sundog.observe.recorded_process import RecordedProcess
from sundog.observe.segments import Block
from sundog.observe.zones import Zones
from sundog.plain import JsonObject, SqlRow

_PORTION = 1 << 16
_TASKS = frozenset({events.TASK, events.CALL, events.CREATE})
_FLOODS = frozenset({events.TASK, events.CALL})
_WAITS = frozenset({events.GET, events.WAIT})
_MADE = frozenset({events.PUT, events.RESULT, events.ARGUMENTS})
_SITED = _WAITS | {events.WAITED, events.PUT, events.ARGUMENTS, events.SITE}  # named by a line of code
_LEASE = "lease"  # stands where the fingerprint of a function's code would
_UNKNOWN = ("?", "", "")
_MOST = float(1 << 62)
_COUNT_MOST = 1 << 48
_QUEUE_MAX = 50_000
_WIDTHS = {"spans": 10, "waited": 7, "made": 10, "samples": 7, "sites": 4, "ready": 3, "leased": 3}
_INSERT = {name: f"INSERT INTO {name} VALUES({', '.join('?' * width)})" for name, width in _WIDTHS.items()}
_INSERT["packets"] = "INSERT OR REPLACE INTO packets VALUES(?, ?, ?, ?, ?, ?)"
_INSERT["traffic"] = "INSERT OR REPLACE INTO traffic VALUES(?, ?, ?, ?, ?)"
_MACHINE = (
    "cpu", "memory_used", "memory_total", "store_used", "store_total", "spilled_bytes", "descriptors", "disk_free",
    "workers", "load",
)  # fmt: skip

Progress = Callable[[int, int], None]


_COLUMNS = tuple(name for name in RecordedProcess.__annotations__ if name != "numbers")


class Intake:
    """Takes what is new into the tables."""

    def __init__(self, db: sqlite3.Connection, session_path: str) -> None:
        self.db = db
        self.session_path = session_path
        self.ledger = Ledger()
        self.dropped = 0
        self._sources: dict[bytes, RecordedProcess] = {}
        self._changed: set[bytes] = set()
        self._names: dict[tuple[str, str, str], int] = {}
        self._texts: dict[int, tuple[str, str, str]] = {}
        self._lost: list[SqlRow] = []
        self._failures: list[SqlRow] = []
        self._errors: list[SqlRow] = []
        self._tallies: dict[tuple[int, int, int, int | None], list[float]] = {}
        self._queued: dict[str, list[SqlRow]] = {}
        self._nameless: set[bytes] = set()  # ended processes whose names are in no segment
        self._load()
        self.zones = Zones(db)

    def _load(self) -> None:
        for row in self.db.execute(f"SELECT {', '.join(_COLUMNS)} FROM processes"):
            self._sources[row[1]] = RecordedProcess(*row)
        by_id = {each.id: each for each in self._sources.values()}
        for process, number, name in self.db.execute("SELECT process, number, name FROM numbers"):
            by_id[process].numbers[number] = name
        for id_, text, code, function in self.db.execute("SELECT id, text, code, function FROM names"):
            self._names[text, code, function] = id_
            self._texts[id_] = (text, code, function)
        found = self.db.execute("SELECT value FROM meta WHERE key = 'ledger'").fetchone()
        if found is not None:
            self.ledger.load(json.loads(found[0]))
        self._first = self.db.execute("SELECT max(id) FROM attempts").fetchone()[0] or 0

    # ------------------------------------------------------------------ processes and their names
    def _source(self, process_id: bytes) -> RecordedProcess:
        found = self._sources.get(process_id)
        if found is None:
            found = self._sources[process_id] = RecordedProcess(len(self._sources) + 1, process_id)
        self._changed.add(process_id)
        return found

    def _name(self, text: str, code: str = "", function: str = "") -> int:
        key = (text, code, function)
        found = self._names.get(key)
        if found is None:
            found = self._names[key] = len(self._names) + 1
            self._texts[found] = key
            self.db.execute("INSERT INTO names VALUES(?, ?, ?, ?)", (found, *key))
        return found

    def take_names(self, process_id: bytes, data: bytes) -> None:
        """The whole file of names of a process that is gone; what was read of it before is not read again."""
        source = self._source(process_id)
        self._take_names(source, data[source.names_at :])

    def _read_names(self, source: RecordedProcess, ring: str) -> None:
        with contextlib.suppress(OSError), open(f"{ring}.names", "rb") as file:
            file.seek(source.names_at)
            self._take_names(source, file.read())

    def _take_names(self, source: RecordedProcess, data: bytes) -> None:
        names, notes, whole = event_names.parse(data)
        source.names_at += whole
        self._take_numbers(source, names)
        for kind, facts in notes:
            with contextlib.suppress(KeyError, ValueError, TypeError):
                self._take_note(source, kind, facts)

    def _take_numbers(self, source: RecordedProcess, names: list[tuple[int, str, str, str]]) -> None:
        rows = []
        for number, text, code, function in names:
            name = source.numbers[number] = self._name(text, code, function)
            rows.append((source.id, number, name))
            if code == _LEASE and not source.lease:
                # Its event may be overwritten; the next one says when another lease began.
                source.lease = name
        self.db.executemany("INSERT OR REPLACE INTO numbers VALUES(?, ?, ?)", rows)

    def _look_again(self, source: RecordedProcess) -> None:
        """Find names that were written since the file of names was read; the file of a process that ended meanwhile
        is in a segment. Notes are left for the next reading, and so the names come once more then.
        """
        ring = f"{self.session_path}/rings/{source.process_id.hex()}.ring"
        try:
            with open(f"{ring}.names", "rb") as file:
                file.seek(source.names_at)
                data = file.read()
        except OSError:
            data = self._names_in_segments(source.process_id)[source.names_at :]
        self._take_numbers(source, event_names.parse(data)[0])

    def _names_in_segments(self, process_id: bytes) -> bytes:
        from sundog.observe import segments

        if process_id not in self._nameless:
            for segment in reversed(segments.list_segments(self.session_path)):
                for block in segments.scan(segment):
                    if block.kind == segments.NAMES and block.process_id == process_id:
                        return segments.payload(segment, block)
            self._nameless.add(process_id)
        return b""

    def _take_note(self, source: RecordedProcess, kind: str, facts: JsonObject) -> None:
        if kind == "error":
            task = bytes.fromhex(facts["task"])
            in_order = int(bool(facts.get("in_order")))
            self._errors.append((task, facts["attempt"], facts["type"], facts["message"], in_order))
        elif kind == "failed":
            self._failures.append((bytes.fromhex(facts["task"]), facts["attempt"], json.dumps(facts)))
        elif kind == "used":
            subject = source.process_id.hex()
            row = (float(facts["until_s"]), kind, source.node_id, subject, json.dumps(facts))
            self.db.execute("INSERT INTO facts VALUES(?, ?, ?, ?, ?)", row)
        elif kind in ("left", "preparing", "prepared", "loaded"):
            row = (float(facts["at_s"]), kind, source.node_id, source.process_id.hex(), json.dumps(facts))
            self.db.execute("INSERT INTO facts VALUES(?, ?, ?, ?, ?)", row)
        elif kind == "home":
            source.node_id = bytes.fromhex(facts["node"])  # of a worker that is not on the head
        elif kind == "function":
            row = (float(facts["at_s"]), kind, source.node_id, str(facts["name"]), json.dumps(facts))
            self.db.execute("INSERT INTO facts VALUES(?, ?, ?, ?, ?)", row)
        elif kind == "actor":
            source.actor_id = source.actor_id or bytes.fromhex(facts.get("actor", ""))
            source.repr_name, source.actor_name = facts.get("repr", ""), facts.get("name", "")
            source.concurrent = int(bool(facts.get("concurrent")))

    # ------------------------------------------------------------------ events
    def take_events(self, node_id: bytes, block: Block, data: bytes) -> None:
        """The events of a block of a segment."""
        source = self._source(block.process_id)
        source.node_id = source.node_id or node_id
        source.unwritten = max(source.unwritten, block.unwritten)
        self._describe(source, block.pid, block.role, block.job_id, block.actor_id)
        ring = f"{self.session_path}/rings/{block.process_id.hex()}.ring"
        if os.path.exists(ring):
            self._read_names(source, ring)
        skip = max(0, source.after + 1 - block.first)
        info = events.RingInfo(block.pid, block.role, 0, 0)
        self._take(
            source, events.Slots(info, block.first + skip, data[skip * events.EVENT_BYTES :]), whole=True
        )

    def read_rings(self, rings: list[str], progress: Progress) -> bool:
        """What is in rings and in no segment yet; False if a ring was emptied meanwhile: look at the segments again.

        Workers first: what their owners wrote of the same tasks is there by then.
        """
        for done, ring in enumerate(rings):
            try:
                if not self._read_ring(ring):
                    return False
            except (ValueError, OverflowError, KeyError, IndexError, TypeError, struct.error):
                self.dropped += 1  # damaged, or made by another program: what it holds is not known
            progress(done + 1, len(rings))
        return True

    def _read_ring(self, ring: str) -> bool:
        process_id = bytes.fromhex(os.path.basename(ring).split(".")[0])
        source = self._source(process_id)
        while True:
            self._read_names(source, ring)
            slots = events.read_slots(ring, source.after, _PORTION)
            if slots is None:
                return os.path.exists(ring)
            if slots.first > source.after + 1 and slots.first > 1 and source.after == 0 and not slots.data:
                return True
            info = slots.info
            self._describe(source, info.pid, info.role, info.job_id, info.actor_id)
            source.unwritten = max(source.unwritten, info.unwritten)
            if info.role == "worker" and info.current.strip(b"\0"):
                source.begun, source.begun_s = info.current, info.current_at
                source.begun_name = source.numbers.get(info.current_name, 0)
            self._take_blocked(source, event_facts.blocked(ring))
            if slots.first > source.after + 1 and self._is_in_segments(process_id, source.after + 1):
                return False
            if not slots.data:
                return True
            source.skipped += slots.first - 1 - source.after
            if not self._take(source, slots, whole=False):
                return True

    def _is_in_segments(self, process_id: bytes, number: int) -> bool:
        """Whether an event that its ring has lost was copied since the segments were read."""
        from sundog.observe import segments

        found = segments.list_segments(self.session_path)[-2:]
        blocks = (block for segment in found for block in segments.scan(segment))
        return any(
            block.process_id == process_id
            and block.kind == segments.EVENTS
            and block.first <= number < block.first + block.slots
            for block in blocks
        )

    def _describe(self, source: RecordedProcess, pid: int, role: str, job_id: bytes, actor_id: bytes) -> None:
        source.pid, source.role, source.job_id = (
            pid or source.pid,
            role or source.role,
            job_id or source.job_id,
        )
        source.actor_id = actor_id or source.actor_id

    def _take(self, source: RecordedProcess, slots: events.Slots, *, whole: bool) -> bool:
        """Take events in order; one that is being written ends it, unless they are `whole` by now."""
        alike = slots.columns() if slots.data else None
        if alike is not None and alike.kind in _FLOODS:
            self._take_alike(source, slots, alike)
            return True
        tasks: list[tuple[object, ...]] = []
        others: list[tuple[object, ...]] = []
        packets = self._queued.setdefault(_INSERT["packets"], [])
        numbers, id_, lease = source.numbers, source.id, source.lease
        expected = slots.first
        name_of = self._name_of(source)
        for at, fields in enumerate(events.EVENT.iter_unpack(slots.data)):
            task_id, submit, start, end, name, kind, flags, attempt, cpu_s, own_bytes, number = fields
            if number != expected:
                if not whole:
                    break
                source.holes += 1
                expected += 1
                continue
            expected += 1
            if kind in _TASKS:
                known = numbers.get(name) or name_of(name)
                times = (submit, start, end)
                tasks.append(
                    (task_id, attempt, kind, known, id_, *times, flags, cpu_s, _whole(own_bytes), lease)
                )
                if kind == events.CREATE:
                    source.actor_id = task_id
                    source.class_name = self._texts[known][0].removesuffix(".__init__")
            elif kind == events.PACKET:
                first = int.from_bytes(task_id[8:], "little")
                packets.append((task_id[:8], _whole(submit), _whole(first), start, name, _whole(own_bytes)))
            elif kind == events.LEASE:
                lease = source.lease = numbers.get(name) or name_of(name)
            elif kind == events.WAITED:
                start_at = at * events.EVENT_BYTES
                others.append((*fields, slots.data[start_at : start_at + events.EVENT_BYTES]))
            else:
                others.append((*fields, b""))
        taken = expected - slots.first
        if taken:
            data = slots.data[: taken * events.EVENT_BYTES]
            self.ledger.count(
                source.process_id.hex(),
                lambda number: self._texts.get(numbers.get(number, 0), _UNKNOWN)[:2],
                events.Slots(slots.info, slots.first, data),
            )
        source.after = max(source.after, expected - 1)
        self._insert_tasks(tasks)
        for fields in others:
            self._take_other(source, fields, name_of)
        if sum(map(len, self._queued.values())) > _QUEUE_MAX:
            self._flush()
        return taken == len(slots.data) // events.EVENT_BYTES

    def _take_alike(self, source: RecordedProcess, slots: events.Slots, alike: events.Columns) -> None:
        """A flood of short tasks of one name: rows are made by the C code of struct and sqlite alone."""
        name = self._name_of(source)(alike.name)
        self.ledger.count_columns(source.process_id.hex(), lambda _: self._texts[name][:2], alike)
        self.db.executemany(
            "INSERT INTO attempts(task_id, submit_s, start_s, end_s, attempt, flags, cpu_s, peak_bytes, kind, name, "
            "process, lease) SELECT task, submit, start, end_, attempt, flags, cpu, CAST(bytes AS INTEGER), "
            f"{alike.kind:d}, {name:d}, {source.id:d}, {source.lease:d} FROM (SELECT ? task, ? submit, ? start, "
            "? end_, ? number, ? kind, ? flags, ? attempt, ? cpu, ? bytes, ? slot)",
            events.EVENT.iter_unpack(slots.data),
        )
        self.zones.add_events(slots.data)
        count = len(slots.data) // events.EVENT_BYTES
        submits, starts = (memoryview(slots.data).cast("d")[at::8].tolist() for at in (2, 3))
        queued = list(map(sub, starts, submits))
        if len(set(alike.flags)) == 1:
            self._tally(name, alike.kind, alike.flags[0], source.id, count, sum(queued))
        else:
            for flags, queued_s in zip(alike.flags, queued):
                self._tally(name, alike.kind, flags, source.id, 1, queued_s)
        source.after = max(source.after, slots.first - 1 + count)

    def _name_of(self, source: RecordedProcess) -> Callable[[int], int]:
        """What finds names of events that were read after the names; it looks for new names once."""
        looked = False

        def find(number: int) -> int:
            nonlocal looked
            if number not in source.numbers and not looked:
                looked = True
                self._look_again(source)
            return source.numbers.get(number) or self._name("?")

        return find

    def _insert_tasks(self, rows: list[SqlRow]) -> None:
        self.db.executemany(
            "INSERT INTO attempts(task_id, attempt, kind, name, process, submit_s, start_s, end_s, flags, cpu_s, "
            "peak_bytes, lease) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
        self.zones.add([row[0] for row in rows])
        for _, _, kind, name, process, submit_s, start_s, _, flags, *_ in rows:
            self._tally(name, kind, flags, process, 1, start_s - submit_s)

    def _tally(
        self, name: int, kind: int, flags: int, process: int | None, count: int, queued_s: float
    ) -> None:
        if not flags & events.HIDDEN:
            tally = self._tallies.setdefault((name, kind, flags & events.FAILED, process), [0, 0.0])
            tally[0] += count
            tally[1] += queued_s

    def _queue(self, table: str, row: SqlRow) -> None:
        """A row that `_flush` writes, many at a time."""
        self._queued.setdefault(_INSERT[table], []).append(row)

    def _flush(self) -> None:
        for sql, rows in self._queued.items():
            self.db.executemany(sql, rows)
            rows.clear()

    def _take_other(self, source: RecordedProcess, fields: SqlRow, name_of: Callable[[int], int]) -> None:
        task_id, last, start, end, name, kind, _, attempt, cpu_s, own_bytes, _, slot = fields
        if kind in _SITED and name and name not in source.numbers:
            name_of(name)
        if kind in _WAITS:
            if start >= source.blocked_s:
                source.blocked_s = 0.0  # the wait has ended
            site = source.numbers.get(name, 0)
            span = (kind, source.id, start, end, task_id, 0, site, _whole(cpu_s), _whole(last), attempt)
            self._queue("spans", span)
        elif kind == events.WAITED:
            task, site = event_facts.waiting_task(slot), source.numbers.get(name, 0)
            waited = (task, attempt, source.id, start, end, task_id, site)
            self._queue("waited", waited)
        elif kind in _MADE:
            self._take_made(source, fields)
        elif kind == events.MOVED:
            self._queue("traffic", (task_id, attempt, *event_facts.bytes_of(fields)))
        elif kind == events.SAMPLE:
            sample = (task_id, source.id, start, _whole(own_bytes), name_of(name), cpu_s, fields[7])
            self._queue("samples", sample)
        elif kind == events.LOST:
            self._lost.append((source, fields[:11], name_of(name)))
        elif kind == events.SITE:
            place, mark, _ = self._texts.get(source.numbers.get(name, 0), _UNKNOWN)
            first = _whole(int.from_bytes(task_id[8:], "little"))
            self._queue("sites", (task_id[:8], mark[1:], first, place))
        elif kind == events.READY:
            self._queue("ready", (task_id, end, _whole(last)))
        elif kind == events.LEASED:
            self._queue("leased", (source.process_id, task_id[:8], end))

    def _take_made(self, source: RecordedProcess, fields: SqlRow) -> None:
        """An object in shared memory; a put is also something that its process did for a while."""
        task_id, size, start, end, name, kind, flags, attempt, _, segment, *_ = fields
        likeness = 0
        if not flags & event_facts.SIZED:
            size, segment, likeness = segment, -1, size
        index = name if kind == events.RESULT else 0
        site = 0 if kind == events.RESULT else source.numbers.get(name, 0)
        made = (task_id, index, kind, source.id, start, end, _whole(size), site, _whole(segment), attempt)
        if not flags & events.ARGUMENT:
            self._queue("made", made)
        if kind == events.PUT:
            marks = flags & events.ARGUMENT
            span = (kind, source.id, start, end, task_id, _whole(size), site, 0, _whole(likeness), marks)
            self._queue("spans", span)

    def _take_blocked(self, source: RecordedProcess, found: event_facts.UnendedWait | None) -> None:
        waits = found or event_facts.UnendedWait(0.0, b"", b"", 0, 0)
        source.blocked_s, source.blocked_kind, source.blocked_on = waits.since_s, waits.kind, waits.object_id
        source.blocked_task, source.blocked_site = waits.task_id, source.numbers.get(waits.site, 0)

    # ------------------------------------------------------------------ facts of the node
    def take_facts(self, node_id: bytes, data: bytes) -> None:
        """Lines that the node wrote."""
        for line in data.decode(errors="replace").splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
                facts = json.loads(line)
                self._take_fact(node_id, facts.pop("fact"), float(facts.pop("s")), facts)

    def _take_fact(self, node_id: bytes, kind: str, at_s: float, facts: JsonObject) -> None:
        if kind == "machine":
            values = [facts.get(name) for name in _MACHINE]
            marks = ", ".join("?" * (len(_MACHINE) + 2))
            self.db.execute(f"INSERT INTO machine VALUES({marks})", (at_s, node_id, *values))
        elif kind == "begun":
            source = self._source(bytes.fromhex(facts["process"]))
            source.begun, source.begun_s = bytes.fromhex(facts["task"]), float(facts["at_s"])
            source.begun_name = source.numbers.get(int(facts.get("name", 0)), 0)
            source.line, source.own_bytes = str(facts.get("line", "")), int(facts.get("own_bytes", 0))
        elif kind == "blocked":
            on, task = bytes.fromhex(facts["object"]), bytes.fromhex(facts["task"])
            waits = event_facts.UnendedWait(
                float(facts["since_s"]), on, task, int(facts["kind"]), int(facts["site"])
            )
            self._take_blocked(self._source(bytes.fromhex(facts["process"])), waits)
        else:
            subject = str(facts.get("subject", ""))
            self.db.execute(
                "INSERT INTO facts VALUES(?, ?, ?, ?, ?)", (at_s, kind, node_id, subject, json.dumps(facts))
            )
            if kind in ("spill", "restore"):
                self._take_moves(node_id, kind, at_s, facts)

    def _take_moves(self, node_id: bytes, kind: str, at_s: float, facts: JsonObject) -> None:
        """A spill or a restore: a row for each object."""
        place = facts["subject"] if kind == "spill" else ""
        found = facts.get("objects", ()) if kind == "spill" else [(facts["subject"], facts.get("bytes"))]
        rows = []
        for segment, size in found:
            maker = bytes.fromhex(segment.removeprefix("disk-").split("-")[1])
            number = event_facts.segment_number(segment)
            rows.append((at_s, kind, node_id, maker, number, size, facts.get("seconds", 0.0), place))
        self.db.executemany("INSERT INTO moves VALUES(?, ?, ?, ?, ?, ?, ?, ?)", rows)

    # ------------------------------------------------------------------ what needs all rows
    def finish(self) -> None:
        """Set right what is told by two processes, and save how far everything was read."""
        self._flush()
        changed = self._take_lost()
        changed += self._take_failures()
        self.zones.save()
        sources = list(self._sources.values())
        self._insert_tasks(answered.rows(self.db, sources, self.session_path, self._changed))
        self._count(everything=changed > 0)
        self.zones.save()
        marks = ", ".join("?" * len(_COLUMNS))
        self.db.executemany(
            f"INSERT OR REPLACE INTO processes({', '.join(_COLUMNS)}) VALUES({marks})",
            [tuple(_held(getattr(self._sources[each], name)) for name in _COLUMNS) for each in self._changed],
        )
        put = "INSERT OR REPLACE INTO meta VALUES(?, ?)"
        self.db.execute(put, ("ledger", json.dumps(self.ledger.dump())))
        if self.dropped:
            found = self.db.execute("SELECT value FROM meta WHERE key = 'dropped'").fetchone()
            self.db.execute(
                put, ("dropped", json.dumps(self.dropped + (json.loads(found[0]) if found else 0)))
            )

    def _count(self, *, everything: bool) -> None:
        """How many attempts there are of each name, kind, outcome and process: counted once, not with each question."""
        if not everything:
            rows = [(*key, *tally) for key, tally in self._tallies.items()]
            self.db.executemany("INSERT INTO counts VALUES(?, ?, ?, ?, ?, ?)", rows)
            return
        self.db.execute("DELETE FROM counts")
        self.db.execute(
            "INSERT INTO counts SELECT name, kind, flags & 1, process, count(*), sum(start_s - submit_s) "
            "FROM attempts WHERE NOT flags & 4 GROUP BY 1, 2, 3, 4"
        )

    def _take_lost(self) -> int:
        """Attempts whose process died under them, unless that process itself wrote how they ended."""
        new = "SELECT task_id, attempt FROM attempts WHERE id > ? AND NOT flags & ?"
        rows = []
        for source, fields, name in self._lost:
            task_id, submit, start, end, _, _, flags, attempt, cpu_s, own_bytes, _ = fields
            worker = self._texts[name][1]
            home = self._source(bytes.fromhex(worker)) if worker else source
            kind = events.CALL if home.actor_id else events.TASK
            text, _, function = self._texts[name]
            known = self._name(text, "", function)
            told = (submit, start, end, flags | schema.LOST, cpu_s, int(own_bytes))
            rows.append((task_id, attempt, kind, known, home.id, *told, home.lease))
        self._insert_tasks(rows)
        known_lost = self.db.execute(
            "SELECT count(*) FROM attempts WHERE flags & 1 AND flags & ?", (schema.LOST,)
        )
        if known_lost.fetchone()[0]:
            # Both ways: the lost are looked for among all rows when they are new, all the lost among new rows.
            first = 0 if rows else self._first
            return self.db.execute(
                "DELETE FROM attempts WHERE flags & 1 AND flags & ? AND (task_id, attempt) IN "
                f"({new} AND task_id IN (SELECT task_id FROM attempts WHERE flags & 1 AND flags & ?))",
                (schema.LOST, first, schema.LOST, schema.LOST),
            ).rowcount
        return 0

    def _take_failures(self) -> int:
        """Tasks that no worker wrote a record of get a row; what ended on purpose is no failure. How many changed."""
        self.db.executemany("INSERT INTO errors VALUES(?, ?, ?, ?, ?)", self._errors)
        self.db.executemany("INSERT INTO failures VALUES(?, ?, ?)", self._failures)
        failed = {(task_id, attempt): text for task_id, attempt, text in self._failures}
        for key in self._there(failed):
            del failed[key]
        self._insert_tasks([self._unrun(*key, json.loads(text)) for key, text in failed.items()])
        changed = self._drop_unrun()
        ended = [(task_id, attempt) for task_id, attempt, *_, in_order in self._errors if in_order]
        retried = self._there((task_id, attempt + 1) for task_id, attempt in ended)
        return (
            changed
            + self.db.executemany(
                "UPDATE attempts SET flags = flags & ~1 WHERE flags & 1 AND task_id = ? AND attempt = ?",
                [key for key in ended if (key[0], key[1] + 1) not in retried],
            ).rowcount
        )

    def _drop_unrun(self) -> int:
        """Remove rows that stood for the record of a worker, which has come by now: its ring was read before the worker
        wrote it, and the ring of the owner after. How many.
        """
        if self.db.execute("SELECT 1 FROM failures LIMIT 1").fetchone() is None:
            return 0
        return self.db.execute(
            "DELETE FROM attempts WHERE id IN (SELECT u.id FROM attempts a JOIN attempts u ON u.task_id = a.task_id "
            "AND u.attempt = a.attempt WHERE a.id > ? AND NOT a.flags & ? AND u.flags & 1 AND u.flags & ?)",
            (self._first, schema.UNRUN, schema.UNRUN),
        ).rowcount

    def _there(self, keys: Iterable[tuple[bytes, int]]) -> set[tuple[bytes, int]]:
        """Which attempts have a row: one look at all rows, however many are asked for."""
        wanted = list(keys)
        if not wanted:
            return set()
        self.db.execute(
            "CREATE TEMP TABLE wanted(task_id BLOB, attempt INTEGER, PRIMARY KEY(task_id, attempt))"
        )
        self.db.executemany("INSERT OR IGNORE INTO wanted VALUES(?, ?)", wanted)
        found = self.db.execute(
            "SELECT a.task_id, a.attempt FROM attempts a JOIN wanted w ON w.task_id = a.task_id "
            "AND w.attempt = a.attempt"
        ).fetchall()
        self.db.execute("DROP TABLE wanted")
        return set(found)

    def _unrun(self, task_id: bytes, attempt: int, facts: JsonObject) -> SqlRow:
        kinds = {"task": events.TASK, "actor_task": events.CALL}
        name, function = facts.get("name", "?"), facts.get("function", "")
        known = self._name(name, "", function if function != name else "")
        kind = kinds.get(facts.get("kind", "task"), events.CREATE)
        end = facts.get("end_s", 0.0)
        flags = events.FAILED | schema.UNRUN
        return (task_id, attempt, kind, known, None, facts.get("submit_s", end), end, end, flags, 0.0, 0, 0)


def _held(value: object) -> object:
    """A value of a process as SQLite can hold and add it up."""
    return value if not isinstance(value, int) or -_COUNT_MOST < value < _COUNT_MOST else 0


def _whole(number: float) -> int:
    """A number of an event as one that SQLite can hold: a foreign file may have anything."""
    return int(number) if -_MOST < number < _MOST else 0
