"""What each kind of event, name and fact becomes in the index; damaged input costs only itself."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from sundog import events
from sundog.observe import schema, segments
from sundog.observe.intake import Intake
from sundog.observe.segments import Block

WORKER, DRIVER, NODE, JOB = b"\x22" * 8, b"\x11" * 8, b"n" * 16, b"\1\0\0\0"
TASK, OTHER = (DRIVER + number.to_bytes(8, "little") for number in (1, 2))


class Tables:
    """An index in memory, and what a test puts into it."""

    def __init__(self, folder: Path) -> None:
        self.db = sqlite3.connect(":memory:")
        self.db.executescript(schema.TABLES + schema.VIEWS)
        self.path = str(folder)
        self.intake = Intake(self.db, self.path)
        self.count = 0
        self.named = b""

    def event(
        self, kind: int, task_id: bytes, *, flags: int = 0, attempt: int = 0, name: int = 1, number: int = 0
    ) -> bytes:
        """The slot of an event; its number is the next one unless the test says another."""
        self.count += 1
        return events.EVENT.pack(
            task_id, 1.0, 2.0, 4.0, name, kind, flags, attempt, 0.5, 1024.0, number or self.count
        )

    def take(self, *slots: bytes, first: int = 1, unwritten: int = 0) -> None:
        data = b"".join(slots)
        block = Block(segments.EVENTS, WORKER, 77, "worker", JOB, b"", first, unwritten, len(data), 0)
        self.intake.take_events(NODE, block, data)

    def names(self, *lines: str) -> None:
        """Lines at the end of the worker's file of names, which is read whole each time."""
        self.named += "".join(f"{line}\n" for line in lines).encode()
        self.intake.take_names(WORKER, self.named)

    def note(self, note: str, **facts: object) -> None:
        self.names(f"{note}\t{json.dumps(facts)}")

    def fact(self, fact: str, s: float = 9.0, **facts: object) -> None:
        self.intake.take_facts(NODE, json.dumps({"fact": fact, "s": s, **facts}).encode() + b"\n")

    def rows(self, question: str) -> list[tuple[object, ...]]:
        return self.db.execute(question).fetchall()

    def attempts(self) -> list[tuple[object, ...]]:
        """Task, attempt and flags of each row, after all was taken."""
        self.intake.finish()
        return self.rows("SELECT task_id, attempt, flags FROM attempts ORDER BY task_id, attempt")


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Tables]:
    found = Tables(tmp_path)
    yield found
    found.db.close()


def test_a_task_is_a_row_with_the_name_its_process_gave_it(tables: Tables) -> None:
    tables.names("1\t'double'\t")
    tables.take(tables.event(events.TASK, TASK))
    tables.intake.finish()

    assert tables.rows(
        "SELECT a.task_id, n.text, submit_s, start_s, end_s, cpu_s, peak_bytes, p.pid, p.role, p.node_id "
        "FROM attempts a JOIN names n ON n.id = a.name JOIN processes p ON p.id = a.process"
    ) == [(TASK, "double", 1.0, 2.0, 4.0, 0.5, 1024, 77, "worker", NODE)]


def test_a_flood_of_one_name_gives_the_same_rows_and_counts_as_single_events(tables: Tables) -> None:
    tables.names("1\t'double'\t", "2\t'half'\t")
    flood = [tables.event(events.TASK, TASK, attempt=number % 2) for number in range(3)]
    tables.take(*flood)
    mixed = [tables.event(events.TASK, OTHER), tables.event(events.TASK, OTHER, name=2)]
    tables.take(*mixed, first=4)
    tables.intake.finish()

    asked = "SELECT n.text, sum(count), sum(queued_s) FROM counts c JOIN names n ON n.id = c.name GROUP BY 1"
    assert tables.rows(asked) == [("double", 4, 4.0), ("half", 1, 1.0)]
    assert len(tables.rows("SELECT 1 FROM attempts")) == 5


def test_what_was_read_before_is_not_read_again(tables: Tables) -> None:
    slots = [tables.event(events.TASK, TASK, attempt=number) for number in range(3)]
    tables.take(*slots[:2])
    tables.take(*slots)
    assert [row[1] for row in tables.attempts()] == [0, 1, 2]

    tables.intake = Intake(tables.db, tables.path)  # the next reader of the same index
    tables.take(*slots)
    assert [row[1] for row in tables.attempts()] == [0, 1, 2]


def test_an_event_that_was_never_written_is_a_hole_and_those_after_it_count(tables: Tables) -> None:
    slots = [
        tables.event(events.TASK, TASK),
        b"\0" * events.EVENT_BYTES,
        tables.event(events.CALL, OTHER, number=3),
    ]
    tables.take(*slots, unwritten=5)

    assert [row[0] for row in tables.attempts()] == [TASK, OTHER]
    assert tables.rows("SELECT holes, unwritten, after FROM processes") == [(1, 5, 3)]


def test_a_constructor_names_the_actor_of_its_process(tables: Tables) -> None:
    tables.names("1\t'Counter.__init__'\t")
    tables.take(tables.event(events.CREATE, TASK))
    tables.note("actor", actor="ff", repr="Counter(3)", name="total", concurrent=True)
    tables.intake.finish()

    asked = "SELECT actor_id, class_name, repr_name, actor_name, concurrent FROM processes"
    assert tables.rows(asked) == [(TASK, "Counter", "Counter(3)", "total", 1)]


def test_tasks_after_the_event_of_a_lease_run_on_that_lease(tables: Tables) -> None:
    tables.names("1\t'f'\t", "2\t'{\"CPU\": 2}'\tlease")
    tables.take(tables.event(events.LEASE, bytes(16), name=2), tables.event(events.TASK, TASK))
    tables.intake.finish()

    assert tables.rows("SELECT n.text FROM attempts a JOIN names n ON n.id = a.lease") == [('{"CPU": 2}',)]


def test_a_put_is_an_object_and_a_time_in_which_its_process_was_busy(tables: Tables) -> None:
    tables.names("1\t'train.py:7'\t")
    tables.take(tables.event(events.PUT, TASK), tables.event(events.GET, OTHER))
    tables.intake.finish()

    assert tables.rows("SELECT task_id, kind FROM made") == [(TASK, events.PUT)]
    assert tables.rows("SELECT s.kind, object, n.text FROM spans s JOIN names n ON n.id = s.site") == [
        (events.PUT, TASK, "train.py:7"),
        (events.GET, OTHER, "train.py:7"),
    ]


def test_the_owners_word_on_a_lost_task_gives_way_to_the_record_of_its_process(tables: Tables) -> None:
    flags = events.FAILED
    lost_ones = [tables.event(events.LOST, task, flags=flags) for task in (TASK, OTHER)]
    tables.take(*lost_ones, tables.event(events.TASK, OTHER, flags=flags))

    [lost, recorded] = tables.attempts()
    assert lost[0] == TASK and isinstance(lost[2], int) and lost[2] & schema.LOST
    assert recorded == (OTHER, 0, flags)


def test_a_task_that_no_worker_began_has_a_row_because_its_owner_noted_its_failure(tables: Tables) -> None:
    tables.note("failed", task=TASK.hex(), attempt=1, name="f", kind="task", submit_s=1.0, end_s=5.0)

    assert tables.attempts() == [(TASK, 1, events.FAILED | schema.UNRUN)]
    assert tables.rows("SELECT submit_s, start_s, end_s, process FROM attempts") == [(1.0, 5.0, 5.0, None)]


def test_what_ended_on_purpose_is_no_failure_unless_it_was_tried_again(tables: Tables) -> None:
    failed = events.FAILED
    tables.take(
        tables.event(events.TASK, TASK, flags=failed),
        tables.event(events.TASK, OTHER, flags=failed),
        tables.event(events.TASK, OTHER, attempt=1),
    )
    for task in (TASK, OTHER):
        tables.note("error", task=task.hex(), attempt=0, type="SystemExit", message="0", in_order=True)

    assert tables.attempts() == [(TASK, 0, 0), (OTHER, 0, failed), (OTHER, 1, 0)]
    counted = tables.rows("SELECT failed, sum(count) FROM counts GROUP BY 1 ORDER BY 1")
    assert counted == [(0, 2), (1, 1)], "the totals follow a row that is changed later"


def test_a_spill_is_a_row_for_each_of_its_objects_and_a_fact(tables: Tables) -> None:
    name = f"1-{WORKER.hex()}-7"
    tables.fact("spill", subject="/disk", objects=[[name, 10], [f"disk-{name}", 20]], seconds=0.5)
    tables.fact("restore", 10.0, subject=name, bytes=10)

    assert tables.rows("SELECT at_s, kind, maker, size_bytes, seconds, place FROM moves") == [
        (9.0, "spill", WORKER, 10, 0.5, "/disk"),
        (9.0, "spill", WORKER, 20, 0.5, "/disk"),
        (10.0, "restore", WORKER, 10, 0.0, ""),
    ]
    assert tables.rows("SELECT kind FROM facts ORDER BY at_s") == [("spill",), ("restore",)]


def test_a_sample_of_the_machine_keeps_the_order_of_its_columns(tables: Tables) -> None:
    tables.fact("machine", cpu=0.5, load=1.5, workers=3)

    assert tables.rows("SELECT cpu, load, workers, store_used FROM machine") == [(0.5, 1.5, 3, None)]


def test_what_the_node_saw_a_dead_process_begin_and_wait_for_is_kept(tables: Tables) -> None:
    tables.fact("begun", process=WORKER.hex(), task=TASK.hex(), at_s=3.0, line="f (a.py:2)", own_bytes=8)
    tables.fact(
        "blocked",
        process=DRIVER.hex(), object=OTHER.hex(), task=TASK.hex(), since_s=4.0, kind=events.GET, site=0,
    )  # fmt: skip
    tables.intake.finish()

    asked = "SELECT process_id, begun, line, own_bytes, blocked_s, blocked_on FROM processes ORDER BY id"
    assert tables.rows(asked) == [
        (WORKER, TASK, "f (a.py:2)", 8, 0.0, b""),
        (DRIVER, b"", "", 0, 4.0, OTHER),
    ]


def test_damaged_lines_cost_only_themselves(tables: Tables) -> None:
    tables.intake.take_facts(
        NODE, b'\xff\n{"fact": 1\n[]\n{"s": 1}\n{"fact": "spill", "s": 1, "objects": [["x", 1]]}\n'
    )
    tables.note("error", task="no hexadecimal", attempt=0, type="E", message="m")
    tables.names("1\t'unended", "2\t'f'\t")
    tables.note("left", at_s=5.0)
    tables.intake.finish()

    assert tables.rows("SELECT at_s FROM facts WHERE kind = 'left'") == [(5.0,)]
    assert tables.rows("SELECT text FROM names") == [("f",)]


def test_a_ring_that_is_none_is_counted_and_the_others_are_read(tables: Tables, tmp_path: Path) -> None:
    (tmp_path / "rings").mkdir()
    ring = events.Ring(str(tmp_path / "rings" / f"{WORKER.hex()}.ring"), 64, "worker", JOB)
    ring.write(events.TASK, TASK, ring.name("f"), 1.0, 2.0, 3.0)
    damaged = tmp_path / "rings" / "no process.ring"
    damaged.write_bytes(b"x")
    done: list[tuple[int, int]] = []

    rings = [str(damaged), ring.path]
    assert tables.intake.read_rings(rings, lambda count, total: done.append((count, total)))
    ring.close()

    assert tables.attempts() == [(TASK, 0, 0)]
    assert done == [(1, 2), (2, 2)]
    assert tables.rows("SELECT value FROM meta WHERE key = 'dropped'") == [("1",)]


def test_numbers_that_sqlite_cannot_hold_are_taken_as_zero(tables: Tables) -> None:
    huge = events.EVENT.pack(TASK, 1.0, 2.0, 3.0, 1, events.TASK, 0, 0, 0.0, 1e30, 1)
    tables.take(huge, tables.event(events.WAIT, OTHER, number=2), unwritten=1 << 60)

    assert tables.attempts() == [(TASK, 0, 0)]
    assert tables.rows("SELECT peak_bytes FROM attempts") == [(0,)]
    assert tables.rows("SELECT unwritten FROM processes") == [(0,)]
