"""The index: a session's records as rows in an SQLite file, brought up to date by each reader.

::

    records/*.seg ─┐
                   ├─ refresh (only what is new) ──► records/index.sqlite ──► list, summary, timeline, why, sql
    rings/*.ring ──┘   what is not in a segment yet

Owns the file and how far it has read: each process' events are numbered, so an event that comes by its ring first and
by a segment later is one row. One process at a time brings it up to date (a lock beside it); others wait for that. A
file of another version, or a broken one, is made anew. Where none can be written (a full disk, a folder that is read
only), it is made in memory. Nothing of what is read is run or unpickled. Runs in the caller's process.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import json
import os
import sqlite3
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sundog.observe import dropped, schema, segments, zones
from sundog.observe.intake import Intake
from sundog.observe.ledger import Ledger

if TYPE_CHECKING:
    from sundog.plain import JsonObject, SqlRow

FILE = "index.sqlite"
_LOCK = "index.lock"
_JOURNAL_MAGIC = bytes.fromhex(
    "d9d505f920a163d7"
)  # of SQLite, before pages and after the name of another file
_BUSY_S = 60.0
# What reading a damaged or foreign file may raise. Its events are counted as missing.
DAMAGED = (ValueError, OverflowError, KeyError, IndexError, TypeError, struct.error)
_MOST = (1 << 63) - 1
_ROUNDS = 3  # segments are read again if a ring was emptied in between

Progress = Callable[[int, int], None]


def no_progress(_done: int, _total: int) -> None:
    """Shows nothing."""


progress: Progress = no_progress
"""What is told how far the reading is, where no other is given: a command sets it once, to its bar."""


class Index:
    """A session's records, to be asked."""

    def __init__(self, session_path: str, db: sqlite3.Connection) -> None:
        self.session_path = session_path
        self.db = db

    # ------------------------------------------------------------------ asking
    def rows(self, sql: str, *values: object) -> list[SqlRow]:
        """All rows of a question."""
        return self.db.execute(sql, _bounded(values)).fetchall()

    def one(self, sql: str, *values: object) -> Any:
        """The first column of the first row; None if there is none."""
        row = self.db.execute(sql, _bounded(values)).fetchone()
        return row[0] if row is not None else None

    def dicts(self, sql: str, *values: object) -> list[JsonObject]:
        """All rows of a question, each by the names of its columns."""
        cursor = self.db.execute(sql, values)
        keys = [column[0] for column in cursor.description]
        return [dict(zip(keys, row)) for row in cursor]

    def holding(self, *task_ids: bytes) -> str:
        """The condition on `a.id` of the attempts of some tasks, which saves looking at all rows (`observe.zones`)."""
        return zones.holding(self.db, task_ids)

    def meta(self, key: str, default: object = None) -> Any:
        """A value that the index keeps about itself."""
        found = self.one("SELECT value FROM meta WHERE key = ?", key)
        return default if found is None else json.loads(found)

    def missed(self) -> int:
        """Events that no row is of: dropped beyond the quota, overwritten in a ring, or not written to a full disk."""
        gone = self.one("SELECT sum(max(unwritten, skipped) + holes) FROM processes") or 0
        return int(gone) + int(self.meta("dropped", 0))

    def usage(self) -> JsonObject:
        """What functions and classes used, each by name, and "missed": events that no total contains."""
        ledger = Ledger()
        ledger.load(self.meta("ledger", {}))
        folded = int(self.meta("folded", 0))
        return {**ledger.figures(), "missed": max(0, self.missed() - folded)}

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """All questions within are answered from one state: another reader that has news to add waits meanwhile."""
        self.db.execute("BEGIN")
        try:
            yield
        finally:
            with contextlib.suppress(sqlite3.Error):
                self.db.execute("COMMIT")

    def close(self) -> None:
        """Close the file."""
        self.db.close()

    # ------------------------------------------------------------------ reading on
    def refresh(self, progress: Progress = no_progress) -> None:
        """Read what is new."""
        db = self.db
        db.execute("BEGIN IMMEDIATE")
        try:
            intake = Intake(db, self.session_path)
            for _ in range(_ROUNDS):
                rings = glob.glob(f"{glob.escape(self.session_path)}/rings/*.ring")
                self._read_segments(intake, progress)
                if intake.read_rings(rings, progress):
                    break
            intake.finish()
            db.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                db.execute("ROLLBACK")
            raise

    def _read_segments(self, intake: Intake, progress: Progress) -> None:
        at, offset, seen = self.meta("position", [0, 0, 0])
        found = [each for each in segments.list_segments(self.session_path) if each.number >= at]
        if found and found[0].number > at and found[0].before > seen:
            self._skip(intake, found[0].before - seen)
        blocks = [
            (segment, block)
            for segment in found
            for block in segments.scan(segment, offset if segment.number == at else segments.HEADER_BYTES)
        ]
        total = sum(block.size for _, block in blocks)
        for segment, block in blocks:  # names first: names of a dead process come after its events
            if block.kind == segments.NAMES:
                with contextlib.suppress(*DAMAGED):
                    intake.take_names(block.process_id, segments.payload(segment, block))
        done = 0
        for segment, block in blocks:
            try:
                if block.kind == segments.EVENTS:
                    intake.take_events(segment.node_id, block, segments.payload(segment, block))
                elif block.kind == segments.FACTS:
                    intake.take_facts(segment.node_id, segments.payload(segment, block))
            except DAMAGED:
                intake.dropped += block.slots
            done += block.size
            progress(done, total)
        if blocks:
            segment, block = blocks[-1]
            last = [each for each in blocks if each[0] is segment]
            start = offset if segment.number == at else segments.HEADER_BYTES
            before = seen if segment.number == at and start == offset and offset else segment.before
            seen = before + sum(each.slots for _, each in last)
            self._set("position", [segment.number, segments.after(block), seen])

    def _skip(self, intake: Intake, count: int) -> None:
        """Segments that were never read are gone; their totals are known, their rows are not."""
        folded = dropped.read(self.session_path)
        if folded.get("upto"):
            intake.ledger = Ledger()
            intake.ledger.load(folded)
            self._set("folded", int(self.meta("folded", 0)) + count)
        intake.dropped += count

    def _set(self, key: str, value: object) -> None:
        self.db.execute("INSERT OR REPLACE INTO meta VALUES(?, ?)", (key, json.dumps(value)))


def _bounded(values: tuple[object, ...]) -> tuple[object, ...]:
    """Numbers as SQLite can hold them: those of tasks in a damaged file may be larger."""
    return tuple([min(each, _MOST) if isinstance(each, int) else each for each in values])


# ---------------------------------------------------------------------- opening
@contextmanager
def opened(session_path: str, told: Progress | None = None) -> Iterator[Index]:
    """A session's index, up to date.

    Args:
        session_path: the session's folder.
        told: called with bytes read and bytes in all.

    Raises:
        OSError: the session's folder cannot be read.
    """
    index = open_index(session_path, told)
    try:
        yield index
    finally:
        index.close()


def open_index(session_path: str, told: Progress | None = None) -> Index:
    """The same; the caller closes it."""
    os.listdir(session_path)  # raises if it cannot be read
    tell = told or progress
    lock = _lock(session_path)
    try:
        if lock is not None:
            try:
                return _on_disk(session_path, tell)
            except (sqlite3.DatabaseError, OSError) as error:
                if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_BUSY:
                    return _in_memory(
                        session_path, tell
                    )  # another reader stands still; the file is as good as before
                # The index is broken, or there is no room for it: rebuild it, then try in memory.
                _remove(session_path)
                with contextlib.suppress(sqlite3.DatabaseError, OSError):
                    return _on_disk(session_path, tell)
                _remove(session_path)
        return _in_memory(session_path, tell)
    finally:
        if lock is not None:
            os.close(lock)


def _lock(session_path: str) -> int | None:
    """The lock of the index, taken; None if nothing can be written there."""
    folder = f"{session_path}/{segments.FOLDER}"
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        lock = os.open(f"{folder}/{_LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return None
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def _on_disk(session_path: str, progress: Progress) -> Index:
    path = f"{session_path}/{segments.FOLDER}/{FILE}"
    if os.path.islink(path) or _names_another_file(f"{path}-journal"):
        _remove(session_path)
    db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        os.chmod(path, 0o600)
        db.execute("PRAGMA trusted_schema = OFF")
        # A killed process leaves a journal, which the next one rolls back. Only a crash of the machine can
        # break the file; then it is rebuilt.
        db.execute("PRAGMA synchronous = OFF")
        if db.execute("PRAGMA user_version").fetchone()[0] != schema.VERSION:
            if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise sqlite3.DatabaseError("another version")
            _create(db)
        index = Index(session_path, db)
        index.refresh(progress)
        return index
    except BaseException:
        db.close()
        raise


def _names_another_file(journal: str) -> bool:
    """Whether a journal ends as one of a change of several files does.

    The index is one file, so sundog never writes such a journal. SQLite would remove the file that it names, wherever
    that is, and the folder of a session may come from somebody else.
    """
    try:
        with open(os.open(journal, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            file.seek(-len(_JOURNAL_MAGIC), os.SEEK_END)
            return file.read() == _JOURNAL_MAGIC
    except FileNotFoundError:
        return False
    except OSError:
        return os.path.islink(journal)  # else it is shorter than that


def _in_memory(session_path: str, progress: Progress) -> Index:
    db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    _create(db)
    index = Index(session_path, db)
    index.refresh(progress)
    return index


def _create(db: sqlite3.Connection) -> None:
    db.executescript(schema.TABLES + schema.VIEWS)
    db.execute(f"PRAGMA user_version = {schema.VERSION}")


def _remove(session_path: str) -> None:
    for end in ("", "-journal", "-wal", "-shm"):
        with contextlib.suppress(OSError):
            os.unlink(f"{session_path}/{segments.FOLDER}/{FILE}{end}")


def session_usage(session_path: str) -> JsonObject:
    """What a session's functions and classes used; works when its node is gone.

    Returns:
        "functions" and "classes", each by name, and "missed": events that no total contains.
    """
    with opened(session_path) as index:
        return index.usage()
