"""Where in the program tasks were submitted: found from the changes that owners recorded.

An owner writes a call site only when a function is submitted from another line than the time before, with the task that
is the first of it. So the site of a task is that of the last change, of its function, at or before its number. Owns
this search; reads the index. Runs where it is called.
"""

from __future__ import annotations

from bisect import bisect_right

from sundog.ids import number_of
from sundog.observe.index import Index


class Sites:
    """The changes of all owners."""

    def __init__(self, index: Index) -> None:
        self._firsts: dict[tuple[bytes, str], list[int]] = {}
        self._sites: dict[tuple[bytes, str], list[str]] = {}
        for owner, name, first, site in index.db.execute(
            "SELECT owner, name, first, site FROM sites ORDER BY first"
        ):
            self._firsts.setdefault((owner, name), []).append(first)
            self._sites.setdefault((owner, name), []).append(site)

    def of(self, task_id: bytes, name: str) -> str:
        """The call site of a task, as `file:line`; "" if none was recorded."""
        key = (task_id[:8], name)
        at = bisect_right(self._firsts.get(key, []), number_of(task_id)) - 1
        return self._sites[key][at] if at >= 0 else ""
