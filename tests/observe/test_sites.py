"""The call site of a task is that of the last change, of its function, at or before its number."""

from __future__ import annotations

import sqlite3

from sundog.observe.sites import site_of

OWNER, OTHER = b"o" * 8, b"x" * 8


class Rows:
    """An index with the one table that is searched."""

    def __init__(self, *rows: tuple[bytes, str, int, str]) -> None:
        self.db = sqlite3.connect(":memory:")
        self.db.execute("CREATE TABLE sites (owner BLOB, name TEXT, first INTEGER, site TEXT)")
        self.db.executemany("INSERT INTO sites VALUES (?, ?, ?, ?)", rows)

    def one(self, sql: str, *values: object) -> object:
        found = self.db.execute(sql, values).fetchone()
        return found[0] if found else None

    def site(self, number: int, name: str = "f", owner: bytes = OWNER) -> str:
        try:
            return site_of(self, owner + number.to_bytes(8, "little"), name)  # type: ignore[arg-type]
        finally:
            self.db.close()


CHANGES = (
    (OWNER, "f", 1, "a.py:1"),
    (OWNER, "f", 5, "a.py:9"),
    (OWNER, "g", 3, "b.py:2"),
    (OTHER, "f", 2, "c.py:7"),
)


def test_a_task_at_a_change_has_its_site() -> None:
    assert Rows(*CHANGES).site(5) == "a.py:9"


def test_a_task_after_a_change_has_the_site_of_that_change() -> None:
    assert Rows(*CHANGES).site(4) == "a.py:1"
    assert Rows(*CHANGES).site(500) == "a.py:9"


def test_functions_and_owners_are_told_apart() -> None:
    assert Rows(*CHANGES).site(9, "g") == "b.py:2"
    assert Rows(*CHANGES).site(9, "f", OTHER) == "c.py:7"


def test_a_task_before_the_first_change_has_no_site() -> None:
    assert Rows(*CHANGES).site(2, "g") == ""
    assert Rows(*CHANGES).site(2, "h") == ""
