"""How much of the object store each job may fill: limits of jobs below the limit of the whole store.

Owns, for each job that has a limit: its processes, and the room that is left to it. An object counts for the job of the
process that owns it, credit for the job of the process that holds it. As the store's own pool, room is an upper bound
that shrinks with each grant, and is counted anew at each scan (`store.py`); what a job's limit makes short is freed by
spilling objects of that job, never of another one. Refuses to decide what waits and what is spilled: ``Store`` does.
Pure. Runs in the node program, on its only thread; without limits each question is one look at an empty dictionary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from sundog.plain import plain
from sundog.state.store_steps import Seen


@plain(frozen=True)
class StoreHolder:
    """A process, and what its objects take of the store."""

    process: bytes
    bytes: int


class Quotas:
    """The limits of all jobs on one store."""

    def __init__(self) -> None:
        self.limits: dict[str, int] = {}
        self._room: dict[str, int] = {}
        self._used: Counter[str] = Counter()  # in objects, at the last scan
        self._held: dict[str, Counter[str]] = {}  # job → owner (hex) → bytes, at the last scan
        self._job_of: dict[str, str] = {}  # process (hex) → job
        self.pressed: frozenset[str] = frozenset()  # jobs whose own limit had objects spilled last

    def __bool__(self) -> bool:
        return bool(self.limits)

    def set_limit(self, job: str, limit_bytes: int) -> None:
        """A job may fill so much."""
        if job not in self.limits:
            self._room[job] = limit_bytes
        else:
            self._room[job] += limit_bytes - self.limits[job]
        self.limits[job] = limit_bytes

    def joined(self, process: bytes, job: str) -> None:
        """A process belongs to a job that has a limit."""
        self._job_of[process.hex()] = job

    def left(self, process: bytes) -> None:
        """A process is gone."""
        self._job_of.pop(process.hex(), None)

    def drop(self, job: str) -> None:
        """A job is over."""
        for table in (self.limits, self._room, self._used, self._held):
            table.pop(job, None)
        self._job_of = {process: each for process, each in self._job_of.items() if each != job}

    # ------------------------------------------------------------------ whose is it
    def job_of(self, process: bytes, name: str = "") -> str:
        """The job that a want counts for: of an object to be restored (`name`), that of its owner."""
        if not self.limits:
            return ""
        return self._job_of.get(name.partition("-")[0] if name else process.hex(), "")

    def of_object(self, name: str) -> str:
        """The job that an object counts for; "" if that has no limit."""
        return self._job_of.get(name.partition("-")[0], "") if self.limits else ""

    # ------------------------------------------------------------------ room
    def room(self, job: str) -> int | None:
        """What a job may still take; None without a limit."""
        return self._room.get(job)

    def fits(self, job: str, need: int) -> bool:
        """Whether so much more is within the job's limit."""
        room = self._room.get(job)
        return room is None or need <= room

    def never_fits(self, job: str, need: int) -> bool:
        """Whether so much is more than the job may have at all."""
        limit = self.limits.get(job)
        return limit is not None and need > limit

    def spare(self, job: str, need: int, amount: int) -> int:
        """Of `amount` to spare beyond `need`, what the job's limit allows."""
        room = self._room.get(job)
        return amount if room is None else max(0, min(amount, (room - need) // 4))

    def took(self, job: str, amount: int) -> None:
        """A job was given so much."""
        if job in self._room:
            self._room[job] -= amount

    def released(self, sizes: Mapping[str, int]) -> None:
        """Objects (name → bytes) have left memory."""
        for name, size in sizes.items() if self.limits else ():
            job = self.of_object(name)
            if job:
                self._room[job] += size

    def counted(
        self, found: Mapping[str, Seen], credit: Mapping[bytes, int], coming: Mapping[str, int]
    ) -> None:
        """A scan: all segments, the credit of all processes, what is being restored."""
        if not self.limits:
            return
        self._used = Counter()
        self._held = {job: Counter() for job in self.limits}
        for name, seen in found.items():
            job = self.of_object(name)
            if job:
                self._used[job] += seen.size
                self._held[job][name.partition("-")[0]] += seen.size
        promised: Counter[str] = Counter()
        for process, amount in credit.items():
            promised[self._job_of.get(process.hex(), "")] += amount
        for name, amount in coming.items():
            promised[self.of_object(name)] += amount
        self._room = {job: limit - self._used[job] - promised[job] for job, limit in self.limits.items()}

    def shortages(self, waiting: Iterable[tuple[str, int]]) -> dict[str, int]:
        """Of those that wait (job, bytes): how much each job lacks below its own limit."""
        needs: Counter[str] = Counter()
        for job, need in waiting:
            if job in self._room:
                needs[job] += need
        return {job: need - self._room[job] for job, need in needs.items() if need > self._room[job]}

    # ------------------------------------------------------------------ for people
    def holders(self, job: str, most: int = 5) -> list[StoreHolder]:
        """The owners of most of a job's objects, at the last scan."""
        rows = self._held.get(job, Counter()).most_common(most)
        return [StoreHolder(bytes.fromhex(process), size) for process, size in rows]

    def used(self, job: str) -> int:
        """Bytes of a job's objects in memory, at the last scan."""
        return self._used[job]
