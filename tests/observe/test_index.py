"""The index: every event one row, from rings, segments or both; what is gone is counted; a broken file is made anew."""

from __future__ import annotations

import contextlib
import json
import os
import random
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from sundog import event_facts, events
from sundog.observe import dropped, index, segments
from sundog.observe.index import opened, session_usage
from sundog.observe.trace import pieces

WORKER, NODE = b"\xcd" * 8, b"n" * 16
TASK_ID = b"\xef" * 8 + bytes(8)


class Session:
    """A session's folder, with one worker that writes and a copier in the place of its node."""

    def __init__(self, folder: Path, capacity: int = 64, most: int = 1 << 20) -> None:
        (folder / "rings").mkdir()
        self.path = str(folder)
        self.ring = events.Ring(
            str(folder / "rings" / f"{WORKER.hex()}.ring"), capacity, "worker", b"\1\0\0\0"
        )
        self.writer = segments.Writer(self.path, NODE, most, 0.0)
        self.after = 0

    def run(self, count: int, name: str = "f") -> None:
        for _ in range(count):
            self.ring.write(events.TASK, TASK_ID, self.ring.name(name), 1.0, 2.0, 3.0)

    def copy(self) -> None:
        slots = events.read_slots(self.ring.path, self.after)
        assert slots is not None
        info = slots.info
        where = {"pid": info.pid, "role": info.role, "job_id": info.job_id, "first": slots.first}
        self.writer.append(segments.EVENTS, slots.data, WORKER, **where)  # type: ignore[arg-type]
        self.after = slots.first - 1 + len(slots.data) // events.EVENT_BYTES

    def end(self) -> None:
        self.copy()
        self.writer.append(segments.NAMES, Path(f"{self.ring.path}.names").read_bytes(), WORKER)
        for end in ("", ".names"):
            os.unlink(self.ring.path + end)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path)


def counts(session: Session) -> tuple[int, int]:
    """Rows, and events that are missed."""
    with opened(session.path) as found:
        return found.one("SELECT count(*) FROM tasks"), found.missed()


def test_an_event_is_one_row_whichever_way_it_comes_and_however_often_is_asked(session: Session) -> None:
    session.run(10)
    assert counts(session) == (10, 0)  # from the ring
    session.copy()
    session.run(5)
    assert counts(session) == (15, 0)  # the first ten are in a segment by now
    session.run(60)
    session.copy()
    session.run(60)
    assert counts(session) == (135, 0)
    assert counts(session) == (135, 0)
    session.ring.close()
    session.writer.close()


def test_a_process_that_is_gone_is_read_from_segments_alone(session: Session) -> None:
    session.run(3, "one")
    assert counts(session) == (3, 0)
    session.run(2, "two")
    session.end()
    with opened(session.path) as found:
        assert found.rows("SELECT name, count(*) FROM tasks GROUP BY name ORDER BY name") == [
            ("one", 3),
            ("two", 2),
        ]
        [row] = found.dicts("SELECT DISTINCT worker_id, pid, node_id, job_id, type, state FROM tasks")
    assert row == {
        "worker_id": WORKER.hex(),
        "pid": os.getpid(),
        "node_id": NODE.hex(),
        "job_id": "01000000",
        "type": "NORMAL_TASK",
        "state": "FINISHED",
    }
    session.ring.close()
    session.writer.close()


def names(session: Session) -> set[str]:
    with opened(session.path) as found:
        return {name for (name,) in found.rows("SELECT name FROM tasks")}


def once(monkeypatch: pytest.MonkeyPatch, owner: object, method: str, act: Callable[[], None]) -> None:
    """Have something done within a refresh: right before the first call of a function that it calls."""
    called = getattr(owner, method)
    left = [act]

    def first(*args: object, **named: object) -> object:
        if left:
            left.pop()()
        return called(*args, **named)

    monkeypatch.setattr(owner, method, first)


def test_a_task_has_its_name_if_both_are_written_after_the_names_were_read(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work() -> None:
        session.run(2, "two")
        site = session.ring.name("line.py:1")
        session.ring.write(events.PUT, TASK_ID, site, 1.0, 2.0, 3.0)

    session.run(1, "one")
    once(monkeypatch, events, "read_slots", work)
    assert names(session) == {"one", "two"}
    with opened(session.path) as found:
        assert found.rows("SELECT n.text FROM spans s JOIN names n ON n.id = s.site") == [("line.py:1",)]
    session.ring.close()
    session.writer.close()


@pytest.mark.parametrize("count", [1, 3])
def test_a_task_has_its_name_if_its_process_ends_while_the_segments_are_read(
    session: Session, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    session.run(count, "one")
    if count == 1:
        session.run(1, "two")  # names that differ are read in another way than a flood of one name
    session.copy()
    once(monkeypatch, segments, "payload", session.end)  # after the blocks were listed
    assert names(session) == ({"one", "two"} if count == 1 else {"one"})
    assert "?" not in names(session)
    session.ring.close()
    session.writer.close()


def test_an_attempt_is_one_row_if_its_owner_is_read_after_and_its_worker_before_it_ended(
    session: Session,
) -> None:
    owner = events.Ring(f"{session.path}/rings/{'ef' * 8}.ring", 64, "driver", b"\1\0\0\0")
    owner.note(
        "failed", task=TASK_ID.hex(), attempt=0, name="f", kind="task", end_s=3.0, error="TASK_CANCELLED"
    )
    asked = "SELECT name, state FROM tasks"
    with opened(session.path) as found:
        assert found.rows(asked) == [("f", "FAILED")]
    session.ring.write(events.TASK, TASK_ID, session.ring.name("f"), 1.0, 2.0, 3.0, events.FAILED)
    with opened(session.path) as found:
        assert found.rows(asked) == [("f", "FAILED")]
        assert found.rows("SELECT sum(count) FROM counts") == [(1,)]
        assert found.rows("SELECT start_s FROM attempts") == [
            (2.0,)
        ]  # the record of the worker, which knows more
    for ring in (owner, session.ring):
        ring.close()


def test_what_a_ring_overwrote_is_counted(session: Session) -> None:
    session.run(100)
    assert counts(session) == (64, 36)
    assert session_usage(session.path)["missed"] == 36
    session.ring.close()


def test_an_event_in_the_making_is_waited_for(session: Session) -> None:
    session.run(3)
    at = events.HEADER_BYTES + 2 * events.EVENT_BYTES - 8
    with open(session.ring.path, "r+b") as file:
        file.seek(at)
        file.write(bytes(8))
        file.flush()
        assert counts(session)[0] == 1
        file.seek(at)
        file.write((2).to_bytes(8, "little"))
    assert counts(session) == (3, 0)
    session.ring.close()


def test_rows_of_dropped_segments_are_missing_and_their_totals_are_not(tmp_path: Path) -> None:
    session = Session(tmp_path, 4096, most=512)
    for _ in range(30):
        session.run(50)
        session.copy()
        for path in session.writer.surplus():
            dropped.fold(session.path, path)
            os.unlink(path)
            session.writer.removed(path)
    kept = len(os.listdir(tmp_path / "records")) * 64
    assert kept <= 1024
    rows, missed = counts(session)
    assert 0 < rows < 1500
    assert rows + missed == 1500
    usage = session_usage(session.path)
    assert (usage["functions"]["f"]["count"], usage["missed"]) == (1500, 0)
    session.run(10)
    assert counts(session) == (rows + 10, missed)
    assert session_usage(session.path)["functions"]["f"]["count"] == 1510
    session.ring.close()
    session.writer.close()


def test_a_block_that_was_cut_off_is_not_read(session: Session) -> None:
    session.run(4)
    session.end()
    path = segments.path_of(session.path, 1)
    with open(path, "r+b") as file:
        file.truncate(segments.HEADER_BYTES + 64 + 2 * 64)
    assert counts(session) == (0, 0)
    session.ring.close()
    session.writer.close()


@pytest.mark.parametrize("content", [b"no database", b""])
def test_a_broken_index_is_made_anew(session: Session, content: bytes) -> None:
    session.run(4)
    assert counts(session) == (4, 0)
    Path(session.path, "records", index.FILE).write_bytes(content)
    assert counts(session) == (4, 0)
    session.ring.close()


def test_where_nothing_can_be_written_the_index_is_in_memory(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.run(4)
    monkeypatch.setattr(index, "_lock", lambda _: None)
    assert counts(session) == (4, 0)
    assert not os.path.exists(f"{session.path}/records")
    session.ring.close()


def test_waits_objects_spills_and_bytes_are_told_with_their_tasks(session: Session) -> None:
    ring, other = session.ring, b"\xee" * 16
    here = ring.name("a.py:3 in f")
    ring.write(events.TASK, TASK_ID, ring.name("f"), 1.0, 2.0, 9.0)
    event_facts.unblock(ring, events.GET, other, here, TASK_ID, 3.0, 5.0)
    event_facts.made(
        ring, events.RESULT, TASK_ID, 2, (f"aa-{WORKER.hex()}-7", 1, [(0, 40_000_001)]), 8.0, 8.5
    )
    event_facts.made(ring, events.PUT, other, here, (f"aa-{WORKER.hex()}-8", 1, [(0, 100)]), 8.0, 8.5)
    event_facts.moved(ring, TASK_ID, 0, b"a" * 2000, None, 10, 9.0)
    event_facts.block(ring, events.WAIT, other, here, TASK_ID, 9.5)
    line = {
        "fact": "spill",
        "s": 10.0,
        "subject": "/disk/1",
        "objects": [[f"aa-{WORKER.hex()}-7", 40]],
        "seconds": 0.5,
    }
    back = {"fact": "restore", "s": 11.0, "subject": f"aa-{WORKER.hex()}-7", "bytes": 40, "seconds": 0.1}
    text = "".join(
        json.dumps(each) + "\n" for each in (line, back, {**line, "objects": ["of an old session"]})
    )
    session.writer.append(segments.FACTS, text.encode(), NODE[:8])
    result = TASK_ID.hex() + "02000000"
    with opened(session.path) as found:
        columns = "bytes_in, bytes_by_value, bytes_out, blocked_s"
        assert found.rows(f"SELECT {columns} FROM tasks") == [(2000, 2000, 40_000_011, 2.0)]
        assert found.rows("SELECT kind, task_id, call_site, duration_s FROM waits") == [
            ("get", TASK_ID.hex(), "a.py:3 in f", 2.0)
        ]
        assert found.rows("SELECT object_id, kind, size_bytes, task_id FROM objects ORDER BY kind") == [
            (other.hex() + "00000000", "put", 100, None),
            (result, "result", 40_000_001, TASK_ID.hex()),
        ]
        moved = found.rows("SELECT kind, object_id, size_bytes, place FROM spills ORDER BY at_s")
        assert moved == [("spill", result, 40, "/disk/1"), ("restore", result, 40, "")]
        assert found.rows("SELECT kind, since_s, task_id FROM blocked") == [("wait", 9.5, TASK_ID.hex())]
    event_facts.unblock(ring, events.WAIT, other, here, TASK_ID, 9.5, 12.0)
    session.end()
    with opened(session.path) as found:
        assert found.rows("SELECT count(*) FROM blocked") == [(0,)]
    ring.close()
    session.writer.close()


@pytest.mark.parametrize("seed", range(6))
def test_records_that_were_damaged_are_read_as_far_as_they_can_be(session: Session, seed: int) -> None:
    session.run(30)
    session.copy()
    session.run(30)
    session.ring.close()
    session.writer.close()
    chance = random.Random(seed)
    for path in (*Path(session.path).glob("records/*.seg"), Path(session.ring.path)):
        data = bytearray(path.read_bytes())
        for _ in range(40):
            data[chance.randrange(8, len(data))] = chance.randrange(256)
        path.write_bytes(data)
    with opened(session.path) as found:
        assert found.one("SELECT count(*) FROM tasks") <= 60
        assert "".join(pieces(found)).startswith("[")
        assert found.missed() >= 0


def journal_naming(path: str) -> bytes:
    """What a change of several data bases leaves, by the file format of SQLite: no pages, and who coordinated it."""
    magic, name = bytes.fromhex("d9d505f920a163d7"), path.encode()
    header = magic + struct.pack(">IIIII", 0, 0, 1, 512, 4096)
    lock_page = struct.pack(">I", (1 << 30) // 4096 + 1)
    return header.ljust(512, b"\0") + lock_page + name + struct.pack(">II", len(name), sum(name)) + magic


def test_a_journal_that_names_a_file_of_the_reader_does_not_make_sqlite_remove_it(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("of the reader")
    path = tmp_path / "session" / "records" / index.FILE
    path.parent.mkdir(parents=True)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE t(a)")
    Path(f"{path}-journal").write_bytes(journal_naming(str(precious)))
    with opened(str(tmp_path / "session")) as found:
        assert found.one("SELECT count(*) FROM attempts") == 0
    assert precious.exists()
