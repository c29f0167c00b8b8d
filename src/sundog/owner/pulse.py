"""What this process does now, in numbers: for progress bars and `sundog top`, about once a second.

Owns the counting. Takes no lock: the table of tasks is copied in one step of the interpreter. A million tasks take a
quarter of a second of one core, in steps that let other threads run. Runs in a thread made for the look.
"""

from __future__ import annotations

from collections import Counter
from operator import attrgetter
from typing import TYPE_CHECKING

from sundog.owner.rows import QUEUED, SENT, WAITING
from sundog.owner.stacks import calls_here
from sundog.wire.lanes import EXTRA_HIDDEN, EXTRA_NAME
from sundog.wire.looks import Pulse, WaitingTasks

if TYPE_CHECKING:
    from sundog.owner.core import Owner

_key = attrgetter("fn.name", "state", "attempt")
_STATES = (WAITING, QUEUED, SENT)


def pulse(owner: Owner) -> Pulse:
    """The calls that run here, and this process's own tasks that have not ended, by name."""
    tasks = list(owner.table.values())
    counts = Counter(map(_key, [task for task in tasks if task.extra is None]))
    for task in tasks:
        extra = task.extra
        if extra is not None and EXTRA_HIDDEN not in extra:
            counts[extra.get(EXTRA_NAME) or task.fn.name, task.state, task.attempt] += 1
    del tasks
    found: dict[str, list[list[int]]] = {}
    for (name, state, attempt), count in counts.items():
        if state in _STATES:
            first, again = found.setdefault(name, [[0, 0, 0], [0, 0, 0]])
            first[_STATES.index(state)] += count
            again[_STATES.index(state)] += count if attempt else 0
    return Pulse(
        calls_here(owner.call_of),
        tuple(
            WaitingTasks(name, known[0], known[1], known[2], (again[0], again[1], again[2]))
            for name, (known, again) in found.items()
        ),
        getattr(getattr(owner.run_here, "__self__", None), "depth", 0),
    )
