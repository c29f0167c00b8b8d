"""What can be computed again: which finished tasks are kept for the sake of their results, as a pure machine.

Owns one `KeptTask` for each finished task with a result that can be lost (it lives in a segment, not in its owner's
memory). Refuses to run anything: it says what to hold, what to let go, and which tasks to run again in which
order. Every owner has one `Lineage`, called under the owner's lock.

How long a row stays
--------------------
While a result of its task is referenced, or a row kept for a later task *needs* one of them. So an argument
keeps its lineage, not its value: when no ref to it is left its segment is given back, and it is
computed again if it is ever wanted::

    a = load.remote()        row load          results {a}
    b = clean.remote(a)      row clean         results {b}, needs a
    del a                    a's bytes are freed, row load stays: clean needs it
    (b's copy is lost)       plan(b): load, then clean

What no task can make again (a `put`, arguments by value, an object of another process, the result of a task that
may not run again) is *held* by the rows that need it instead.

The rows together are bounded by `max_bytes`: beyond it the oldest are emptied, and say so when asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sundog.ids import task_of
from sundog.plain import plain

# Instructions, returned by the methods:
#   ("hold", object_id)    keep the value of this object until told to drop it
#   ("drop", object_id)    end one such hold
#   ("forget", task_id)    what was kept for running this task again is not needed any more
Instruction = tuple[str, bytes]

EVICTED = "its lineage was dropped to stay within max_lineage_bytes"
FREED = "the program freed it with sundog.internal.free()"


class KeptTask:
    """A finished task whose results may be lost."""

    __slots__ = ("held", "live", "made_from", "name", "needed", "size_bytes", "why_not")

    def __init__(self, name: str, live: set[bytes], size_bytes: int, why_not: str) -> None:
        self.name = name  # for people
        self.live = live  # results that are referenced and may be lost
        self.needed = 0  # needs of other rows that this one can make again
        self.made_from: tuple[bytes, ...] = ()  # needs that can be made again by rows of their own
        self.held: tuple[bytes, ...] = ()  # needs that cannot
        self.size_bytes = size_bytes
        self.why_not = why_not  # why the task cannot run again; empty if it can


@plain(frozen=True)
class Plan:
    """What to run to get an object back.

    Args:
        steps: (task, its results that are wanted), those first on which others depend.
        chain: empty if the plan can be carried out; else from the object asked for down to the one that
            cannot be had, each needed by the one before it.
        why: why that last one cannot be had.
    """

    steps: tuple[tuple[bytes, frozenset[bytes]], ...] = ()
    chain: tuple[bytes, ...] = ()
    why: str = ""


class Lineage:
    """The rows of one owner.

    Args:
        max_bytes: how much may be kept for running tasks again.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        self.rows: dict[bytes, KeptTask] = {}
        self._full: dict[bytes, None] = {}  # tasks that can run again, the oldest first

    # ------------------------------------------------------------------ events
    def keep(
        self,
        task_id: bytes,
        name: str,
        live: Iterable[bytes],
        needs: Iterable[bytes],
        size_bytes: int,
        why_not: str = "",
    ) -> list[Instruction]:
        """A task finished (again) with these results in segments; `needs` are the objects it was made from.

        Args:
            size_bytes: what is kept for running it again: its arguments.
            why_not: why it cannot be run again; then nothing but this word is kept.
        """
        out: list[Instruction] = []
        row = KeptTask(name, set(live), size_bytes, why_not)
        before = self.rows.pop(task_id, None)
        self.rows[task_id] = row
        if not why_not:
            self._take_needs(row, needs, out)
        if before is not None:
            row.needed = before.needed
            self._leave(task_id, before, out)
        if not why_not:
            self._full[task_id] = None
            self.bytes += size_bytes
        if not row.live and not row.needed:
            self._remove(task_id, row, out)
        while self.bytes > self.max_bytes:
            oldest = next(iter(self._full))
            self._leave(oldest, self.rows[oldest], out)
            self.rows[oldest].why_not = EVICTED
        # Holds first: one row may drop an object that the next row holds.
        return sorted(out, key=lambda step: step[0] != "hold")

    def freed(self, oid: bytes) -> list[Instruction]:
        """No ref to an object is left: its value is gone, its row stays only if others need it."""
        out: list[Instruction] = []
        task_id = task_of(oid)
        row = self.rows.get(task_id)
        if row is not None:
            row.live.discard(oid)
            if not row.live and not row.needed:
                self._remove(task_id, row, out)
        return out

    def revived(self, oid: bytes) -> None:
        """An object that was freed is being made again, because a row needs it."""
        self.rows[task_of(oid)].live.add(oid)

    # ------------------------------------------------------------------ questions
    def is_live(self, oid: bytes) -> bool:
        """Whether an object is a referenced result that may be lost."""
        row = self.rows.get(task_of(oid))
        return row is not None and oid in row.live

    def can_make(self, oid: bytes) -> bool:
        """Whether the task of an object is kept and may run again."""
        row = self.rows.get(task_of(oid))
        return row is not None and not row.why_not

    def plan(
        self, oid: bytes, at_hand: Callable[[bytes], bool], refuses: Callable[[bytes], str] = lambda need: ""
    ) -> Plan:
        """What must run to get an object back.

        Args:
            at_hand: whether the value of an object is here, or on its way.
            refuses: why an object cannot be made (its actor is dead, the program freed it); empty if it can.
        """
        wanted: dict[bytes, set[bytes]] = {}
        order: list[bytes] = []
        parent: dict[bytes, bytes] = {}
        # Not recursive: a program with a loop may make a chain of a hundred thousand tasks.
        stack: list[tuple[bytes, bool]] = [(oid, False)]
        while stack:
            need, is_done = stack.pop()
            task_id = task_of(need)
            if is_done:
                order.append(task_id)
                continue
            row = self.rows.get(task_id)
            why = "" if row is not None else "no task can compute it"
            why = why or (row.why_not if row is not None else "") or refuses(need)
            if row is None or why:
                return Plan(chain=_chain(parent, need), why=why)
            if task_id in wanted:
                wanted[task_id].add(need)
                continue
            wanted[task_id] = {need}
            stack.append((need, True))
            for inner in (*row.made_from, *row.held):
                if not at_hand(inner):
                    parent.setdefault(inner, need)
                    stack.append((inner, False))
        return Plan(tuple((task_id, frozenset(wanted[task_id])) for task_id in order))

    def needs_of(self, task_id: bytes) -> tuple[bytes, ...]:
        """The objects that a kept task was made from."""
        row = self.rows[task_id]
        return (*row.made_from, *row.held)

    # ------------------------------------------------------------------ inner parts
    def _take_needs(self, row: KeptTask, needs: Iterable[bytes], out: list[Instruction]) -> None:
        made_from, held = [], []
        for need in dict.fromkeys(needs):
            maker = self.rows.get(task_of(need))
            if maker is None or maker.why_not or maker is row:
                held.append(need)
                out.append(("hold", need))
            else:
                maker.needed += 1
                made_from.append(need)
        row.made_from, row.held = tuple(made_from), tuple(held)

    def _remove(self, task_id: bytes, row: KeptTask, out: list[Instruction]) -> None:
        del self.rows[task_id]
        self._leave(task_id, row, out)

    def _leave(self, task_id: bytes, row: KeptTask, out: list[Instruction]) -> None:
        """Release what a row needs, and of the rows that only it needed, however long the chain."""
        pending = [(task_id, row)]
        while pending:
            task_id, row = pending.pop()
            if task_id in self._full:
                del self._full[task_id]
                self.bytes -= row.size_bytes
                out.append(("forget", task_id))
            made_from, row.made_from = row.made_from, ()
            held, row.held = row.held, ()
            out.extend(("drop", need) for need in held)
            for need in made_from:
                maker_id = task_of(need)
                maker = self.rows[maker_id]
                maker.needed -= 1
                if not maker.needed and not maker.live:
                    del self.rows[maker_id]
                    pending.append((maker_id, maker))


def _chain(parent: dict[bytes, bytes], last: bytes) -> tuple[bytes, ...]:
    chain = [last]
    while chain[-1] in parent:
        chain.append(parent[chain[-1]])
    return tuple(reversed(chain))
