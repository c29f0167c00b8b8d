"""The value of a `num_returns="dynamic"` task: refs to the items that it yielded.

Owns no state but the refs. Made by the owner of the task, pickled, and read in any process that gets the value.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from sundog.refs import ObjectRef


class DynamicObjectRefGenerator:
    """The value of a num_returns="dynamic" task: iterates over refs to the items it yielded."""

    def __init__(self, refs: list[ObjectRef[object]]) -> None:
        self._refs = deque(refs)

    def __iter__(self) -> Iterator[ObjectRef[Any]]:
        while self._refs:
            yield self._refs.popleft()

    def __len__(self) -> int:
        return len(self._refs)
