"""Where in the program tasks were submitted: found from the changes that owners recorded.

An owner writes a call site only when a function is submitted from another line than the time before, with the task that
is the first of it. So the site of a task is that of the last change, of its function, at or before its number. Owns
this search; reads the index. Runs where it is called.
"""

from __future__ import annotations

from sundog.ids import number_of
from sundog.observe.index import Index

_FIND = "SELECT site FROM sites WHERE owner = ? AND name = ? AND first <= ? ORDER BY first DESC LIMIT 1"


def site_of(index: Index, task_id: bytes, name: str) -> str:
    """The call site of a task, as `file:line in function`; "" if none was recorded."""
    return index.one(_FIND, task_id[:8], name, number_of(task_id)) or ""
