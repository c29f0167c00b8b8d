"""Capsules for tests."""

from __future__ import annotations

from typing import Any

from sundog.capsules.rows import Contents, Header, Outcome

HEADER = Header(
    "ab" * 16, 0, "f", "task", "f", "f.py:1", "", Outcome("ValueError", "no"), 1.0, "session", 1, {}, {}
)


def contents(**fields: Any) -> Contents:
    given = dict.fromkeys(Contents._fields, None) | {
        "values": (),
        "nested": {},
        "method": "",
        "actor_state": b"",
    }
    return Contents(**{**given, **fields})
