"""The object store's limit: which process may fill how much, what is moved to disk, and what comes back.

Pure: events and a clock in, instructions out. The sum that it keeps::

    limit = bytes in segments + credit in processes + pool

A process spends its credit without a message (`sundog.store.credit`), so what this machine knows of it is an
upper bound; nor does it hear of segments that are removed. When the pool runs short it looks again, in a *round*::

    IDLE ──short──► SCAN    how large are the files really? (skipped if that was no help a moment ago)
                      │ still short
                      ▼
                    TRIM    every process returns its credit, its free list and unused mappings, and says what it
                      │     has views of; one that does not answer in time is left out
                      ▼
                    COUNT   scan again, serve those that wait, and pick what was used longest ago to spill or evict
                      │
                      ▼
                    IDLE    each finished spill adds to the pool; another round if that was not enough

A spilled object that was restored keeps its copy on disk, so it is evicted again without need. What is in use
(some process has a view) stays: its pages could not be had back anyway. If nothing is left to move, a put goes
to disk, and a restored object is read where it lies.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from sundog.plain import field, plain
from sundog.state.store_quotas import Quotas
from sundog.state.store_steps import (
    Collect,
    Delete,
    Evict,
    Granted,
    Here,
    Restore,
    RoomRefused,
    Scan,
    Seen,
    Spill,
    SpillPlace,
    Step,
    Trim,
)

IDLE, SCAN, TRIM, COUNT = "idle", "scan", "trim", "count"
# A process that has not answered after this time is stopped or busy: work continues without its answer.
PATIENCE_S = 0.25
# How long after a shortage the store keeps some space free for the next request.
AHEAD_S = 5.0
# Above this share of the limit, objects may exist only because no process has collected garbage.
COLLECT_ABOVE = 0.7
# Collecting garbage takes longer the more a process holds, and rarely helps twice in a row.
COLLECT_REST_S = 30.0
_CHUNK_MAX = 64 << 20
_RETRY_S = 0.2
_SOON_S = 0.015
_BARREN_S = 0.5
_DISK_REST_S = 1.0


@plain()
class RoomWant:
    """Something waits for room: a put, or an object that is to come back (`name`)."""

    process: bytes
    number: int
    need: int
    since: float
    name: str = ""
    tenant: str = ""  # the job whose limit counts this object; "" for none


@plain()
class Spilled:
    """An object that has a copy on disk."""

    place: SpillPlace
    restored: bool = False
    restoring: bool = False
    askers: list[tuple[bytes, int]] = field(default_factory=list)


@plain()
class Figures:
    """What happened so far."""

    spilled_objects: int = 0
    spilled_bytes: int = 0
    restored_objects: int = 0
    restored_bytes: int = 0
    rounds: int = 0


def owner_of(name: str) -> str:
    """The process whose object a segment holds (hex)."""
    return name.partition("-")[0]


def maker_of(name: str) -> str:
    """The process that made a segment (hex)."""
    return name.split("-", 2)[1] if name.count("-") >= 2 else ""


class Store:
    """Credit, rounds and the table of spilled objects of one node.

    Args:
        limit: bytes of shared memory for objects.
        ahead: bytes that a round frees beyond what is asked for.
        spilling: whether objects may be moved at all.
        fallback: whether a put that finds no room goes to disk; otherwise it fails after `grace_s`.
        fuse_bytes, fuse_count: objects are put together in one file up to this.
    """

    def __init__(
        self,
        limit: int,
        *,
        ahead: int,
        spilling: bool = True,
        fallback: bool = True,
        grace_s: float = 2.0,
        fuse_bytes: int = 32 << 20,
        fuse_count: int = 2000,
    ) -> None:
        self.limit = limit
        self.pool = limit
        self.ahead = ahead
        self.spilling = spilling
        self.fallback = fallback
        self.grace_s = grace_s
        self.fuse_bytes = fuse_bytes
        self.fuse_count = fuse_count
        self.figures = Figures()
        self.quotas = Quotas()
        self.entries: dict[str, Spilled] = {}
        self.waiting: deque[RoomWant] = deque()
        self.phase = IDLE
        self._chunk = min(limit // 32, _CHUNK_MAX)
        self._credit: dict[bytes, int] = {}  # upper bounds
        self._sent: dict[bytes, int] = {}  # everything that was granted: some grants may be on their way
        self._pins: dict[bytes, set[str]] = {}
        self._used: dict[str, float] = {}
        # name -> the first scan that found the file, and about when it was created. A process answers a trim
        # with the files that it is writing. So a file that an earlier scan found is complete or in that
        # answer; a file of a later scan may be incomplete.
        self._seen: dict[str, tuple[int, float]] = {}
        self._scanned_at = float("-inf")
        self._in_file: dict[str, int] = {}  # url -> objects in it that are not free
        # objects that are being moved out of memory, and their bytes
        self._jobs: dict[int, dict[str, int]] = {}
        self._next_job = 1
        self._restoring: dict[str, int] = {}  # objects that are being restored into memory
        self._ahead_until = 0.0
        self._disk_rests_until = 0.0
        self._retry_at = 0.0
        self._collect_at = float("-inf")  # garbage is not collected before this time
        self._looked_at = limit  # the pool at the last check
        # of the current round
        self._round = 0
        self._scans = 0
        self._trimmed_after = 0  # how many scans there were before the processes were asked
        self._pressed_until = 0.0
        self._deadline = 0.0
        self._unanswered: set[bytes] = set()
        self._silent: set[bytes] = set()  # processes that did not answer the last time, nor since
        self._answered: set[bytes] = set()  # processes that have reported in this round what they write
        self._passing = False  # something could not be removed only because it was too new
        self._barren_until = 0.0
        self._writing: set[str] = set()
        self._remove: list[str] = []

    # ------------------------------------------------------------------ processes
    def process_started(self, process: bytes) -> None:
        """A process that may hold credit and views."""
        self._credit.setdefault(process, 0)

    def process_died(self, process: bytes, now: float) -> list[Step]:
        """Its credit and views are gone; so are the objects that it owned."""
        self._credit.pop(process, None)
        self._sent.pop(process, None)
        self._pins.pop(process, None)
        self.quotas.left(process)
        self.waiting = deque(want for want in self.waiting if want.process != process or want.name)
        mine = process.hex()
        out = self.freed([name for name in self.entries if owner_of(name) == mine])
        for entry in self.entries.values():
            if entry.askers:
                entry.askers = [asker for asker in entry.askers if asker[0] != process]
        if process in self._unanswered:
            self._unanswered.discard(process)
            out += self._maybe_count()
        return out + self._serve(now)

    def made_by(self, maker: bytes) -> dict[bytes, list[str]]:
        """Spilled objects of others that a process made, by owner: it may have died before it told them."""
        found: dict[bytes, list[str]] = {}
        mine = maker.hex()
        for name in self.entries:
            if maker_of(name) == mine and owner_of(name) != mine:
                found.setdefault(bytes.fromhex(owner_of(name)), []).append(name)
        return found

    # ------------------------------------------------------------------ room for puts
    def ask(self, process: bytes, number: int, missing: int, left: int, got: int, now: float) -> list[Step]:
        """A process needs `missing` bytes more than the credit `left` to it; `got` is all it was ever granted."""
        if process in self._credit:
            self._credit[process] = left + self._sent.get(process, 0) - got
        self.waiting.append(RoomWant(process, number, missing, now, "", self.quotas.job_of(process)))
        return self._serve(now)

    def _serve(self, now: float) -> list[Step]:
        """Give what there is to the process that waits longest, and see to more."""
        out = self._serve_only()
        if self.phase == IDLE and not self._jobs and now >= self._retry_at:
            if self.waiting:
                self._ahead_until = now + AHEAD_S
                out += self._begin(now)
            elif self.pool < self.ahead // 2 and self._barren_until <= now < self._ahead_until:
                out += self._begin(now)
        return out

    def _fulfil(self, want: RoomWant) -> list[Step]:
        if want.name:
            entry = self.entries[want.name]
            self.pool -= want.need
            self.quotas.took(want.tenant, want.need)
            self._restoring[want.name] = want.need
            return [Restore(want.name, entry.place)]
        # Grant some more, so that the next puts need no request; less when little is left.
        spare = self.quotas.spare(want.tenant, want.need, min(self._chunk, (self.pool - want.need) // 4))
        amount = want.need + spare
        self.pool -= amount
        self.quotas.took(want.tenant, amount)
        if want.process in self._credit:
            self._credit[want.process] += amount
        self._sent[want.process] = self._sent.get(want.process, 0) + amount
        return [Granted(want.process, want.number, amount)]

    def _refuse(self, want: RoomWant) -> list[Step]:
        if want.name:
            entry = self.entries[want.name]
            entry.restoring = False
            askers, entry.askers = entry.askers, []
            return [Here(process, number, entry.place, False) for process, number in askers]
        tenant = want.tenant if not self.quotas.fits(want.tenant, want.need) else ""
        return [RoomRefused(want.process, want.number, not self.fallback, tenant)]

    # ------------------------------------------------------------------ rounds
    def _begin(self, now: float) -> list[Step]:
        self._round += 1
        self.figures.rounds += 1
        if now >= self._pressed_until:
            self.phase = SCAN
            return [Scan(self._round, [])]
        return self._trim(now)

    def _trim(self, now: float) -> list[Step]:
        self.phase = TRIM
        self._trimmed_after = self._scans
        self._deadline = now + PATIENCE_S
        self._silent &= self._credit.keys()
        self._unanswered = self._credit.keys() - self._silent
        self._writing.clear()
        self._answered.clear()
        self._remove = []
        if not self._unanswered:
            return self._maybe_count()
        return [Trim(process, self._round) for process in self._unanswered]

    def trimmed(
        self,
        process: bytes,
        round_number: int,
        reserved: int,
        got: int,
        live: list[str],
        writing: list[str],
        free: list[str],
        used: dict[str, float],
    ) -> list[Step]:
        """A process returned its credit (but for what it is writing), and says what it looks at."""
        if process not in self._credit:
            return []
        self._silent.discard(process)
        self._credit[process] = reserved + self._sent.get(process, 0) - got
        self._pins[process] = set(live)
        self._writing.update(writing)
        self._used.update(used)
        self._remove.extend(free)
        if round_number == self._round:
            self._answered.add(process)
        if round_number != self._round or self.phase != TRIM:
            return []  # late: the next round removes what the process returned
        self._unanswered.discard(process)
        return self._maybe_count()

    def _maybe_count(self) -> list[Step]:
        if self.phase != TRIM or self._unanswered:
            return []
        self.phase = COUNT
        remove, self._remove = self._remove, []
        return [Scan(self._round, remove)]

    def scanned(self, round_number: int, found: dict[str, Seen], other: int, now: float) -> list[Step]:
        """The sizes of all segments (restored ones too), and the bytes of everything else there."""
        if round_number != self._round or self.phase not in (SCAN, COUNT):
            return []
        self._note(found, now)
        pinned = set().union(*self._pins.values())
        # Pages of a removed file stay as long as a process has them mapped.
        ghosts = sum(
            self.entries[name].place.length for name in pinned if name in self.entries and name not in found
        )
        in_use = sum(seen.size for seen in found.values()) + other + ghosts
        self.pool = self.limit - in_use - sum(self._credit.values()) - sum(self._restoring.values())
        self._looked_at = self.pool
        self.quotas.counted(found, self._credit, self._restoring)
        for job in self._jobs.values():
            job.update(
                (name, 0) for name in job if name not in found
            )  # gone already: must not be counted twice
        counted = self.phase == COUNT
        self.phase = IDLE
        collected: list[Step] = []
        if in_use > self.limit * COLLECT_ABOVE and now >= self._collect_at:
            self._collect_at = now + COLLECT_REST_S
            collected.append(Collect())
        if not counted:
            out = collected + self._serve_only()
            return out + (self._trim(now) if self.waiting else [])
        self._used = {name: at for name, at in self._used.items() if name in found}
        out = collected + self._serve_only()
        return out + self._pick(found, pinned, now)

    def _note(self, found: dict[str, Seen], now: float) -> None:
        """Remember which scan found a file first. Its age is believed within what the scans allow: clocks are set."""
        self._scans += 1
        seen, low = self._seen, self._scanned_at
        self._seen = {
            name: seen.get(name) or (self._scans, min(max(facts.made_at, low), now))
            for name, facts in found.items()
        }
        self._scanned_at = now

    def _serve_only(self) -> list[Step]:
        """Give what there is, in turn. A process whose job is at its own limit holds up no other."""
        out: list[Step] = []
        aside: deque[RoomWant] = deque()
        while self.waiting:
            want = self.waiting[0]
            if want.need > self.limit or self.quotas.never_fits(want.tenant, want.need):
                out += self._refuse(self.waiting.popleft())
            elif not self.quotas.fits(want.tenant, want.need):
                aside.append(self.waiting.popleft())
            elif want.need <= self.pool:
                out += self._fulfil(self.waiting.popleft())
            else:
                break
        if aside:
            aside.extend(self.waiting)
            self.waiting = aside
        return out

    def _pick(self, found: dict[str, Seen], pinned: set[str], now: float) -> list[Step]:
        """What was used longest ago goes, until there is room for the processes that wait, and some ahead."""
        short = sum(want.need for want in self.waiting) - self.pool
        lacking = self.quotas.shortages((want.tenant, want.need) for want in self.waiting)
        self.quotas.pressed = frozenset(lacking)
        if short <= 0 and self.pool >= self.ahead and not lacking:
            return []
        self._pressed_until = now + AHEAD_S
        self._passing = False
        victims = self._candidates(found, pinned) if self.spilling else []
        freed = 0
        evicted: dict[str, int] = {}
        spills: list[tuple[str, int]] = []
        resting = now < self._disk_rests_until
        for name, size in victims:
            tenant = self.quotas.of_object(name) if lacking else ""
            if freed >= short + self.ahead and lacking.get(tenant, 0) <= 0:
                if not lacking:
                    break
                continue
            entry = self.entries.get(name)
            if entry is not None:
                entry.restored = False
                evicted[name] = size
            elif resting:
                continue
            else:
                spills.append((name, size))
            freed += size
            if tenant in lacking:
                lacking[tenant] -= size
        out: list[Step] = [Evict(self._job(evicted), list(evicted))] if evicted else []
        out += self._spills(spills)
        if not freed:
            self._barren_until = now + _BARREN_S
        if self.waiting and not self._jobs:
            out += self._no_room(now)
        return out

    def _candidates(self, found: dict[str, Seen], pinned: set[str]) -> list[tuple[str, int]]:
        # An answer to an earlier round does not count: the process may have begun to write a file since then.
        unheard = {process.hex() for process in self._credit.keys() - self._answered}
        used = self._used
        rows = []
        for name, seen in found.items():
            if name in pinned or not seen.size:
                continue
            first, made_at = self._seen[name]
            if name in self._writing or first > self._trimmed_after:
                self._passing = True
                continue
            entry = self.entries.get(name)
            if entry is None and maker_of(name) in unheard:
                continue  # the process may have been stopped while it wrote the file
            if entry is not None and (entry.restoring or not entry.restored):
                continue
            rows.append((max(made_at, used.get(name, 0.0)), name, seen.size))
        rows.sort()
        return [(name, size) for _, name, size in rows]

    def _spills(self, victims: list[tuple[str, int]]) -> list[Step]:
        """Jobs of one file each; small objects share a file, a large one has its own."""
        out: list[Step] = []
        batch: dict[str, int] = {}
        total = 0
        for name, size in victims:
            if batch and (total + size > self.fuse_bytes or len(batch) >= self.fuse_count):
                out.append(Spill(self._job(batch), list(batch)))
                batch, total = {}, 0
            batch[name] = size
            total += size
        if batch:
            out.append(Spill(self._job(batch), list(batch)))
        return out

    def _job(self, batch: dict[str, int]) -> int:
        job, self._next_job = self._next_job, self._next_job + 1
        self._jobs[job] = batch
        return job

    def _no_room(self, now: float) -> list[Step]:
        """Nothing can be moved: a put goes to disk, or waits a while for others to be freed and then fails."""
        out: list[Step] = []
        kept: deque[RoomWant] = deque()
        for want in self.waiting:
            if want.need <= self.pool and self.quotas.fits(want.tenant, want.need):
                out += self._fulfil(want)
            elif now - want.since >= self.grace_s or ((self.fallback or want.name) and not self._passing):
                out += self._refuse(want)
            else:
                kept.append(want)
        self.waiting = kept
        if kept:
            self._retry_at = now + (_SOON_S if self._passing else _RETRY_S)
        return out

    def look(self, now: float) -> list[Step]:
        """Now and then: if the store seems to fill, see whether it does, and have garbage collected."""
        if self.phase != IDLE or self._jobs or now < self._collect_at:
            return []
        # Credit is an upper bound, so only the files count. If the pool has not changed, no process has asked
        # for space since.
        if self.limit - self.pool <= self.limit * COLLECT_ABOVE or self.pool == self._looked_at:
            return []
        self._round += 1
        self.phase = SCAN
        return [Scan(self._round, [])]

    def tick(self, now: float) -> list[Step]:
        """Time passes: stop waiting for processes that do not answer; try again for those that wait."""
        out: list[Step] = []
        if self.phase == TRIM and now >= self._deadline:
            self._silent |= self._unanswered
            self._unanswered = set()
            out += self._maybe_count()
        return out + self._serve(now)

    def busy(self) -> bool:
        """Whether `tick` is needed soon."""
        return bool(self.waiting) or self.phase == TRIM

    # ------------------------------------------------------------------ spilled
    def spilled(
        self, job: int, url: str, moved: list[tuple[str, int, int]], dropped: Collection[str] = ()
    ) -> list[Step]:
        """(name, offset, length) of the segments that are in `url` now, and cannot be opened in memory any more.

        `dropped`: copies that were removed without a copy on disk, for another node has the object.
        """
        sizes = self._jobs[job]
        self._jobs[job] = {name: sizes[name] for name in (*[row[0] for row in moved], *dropped)}
        for name in dropped:
            self._used.pop(name, None)
        for name, offset, length in moved:
            self.entries[name] = Spilled(SpillPlace(url, offset, length))
            self._used.pop(name, None)
            self.figures.spilled_objects += 1
            self.figures.spilled_bytes += length
        if not moved:
            return [Delete(url)] if url else []
        self._in_file[url] = len(moved)
        return []

    def released(self, job: int, now: float) -> list[Step]:
        """The pages of what a job removed are free."""
        sizes = self._jobs.pop(job)
        self.pool += sum(sizes.values())
        self.quotas.released(sizes)
        return self._serve(now)

    def spill_failed(self, job: int, now: float) -> list[Step]:
        """The disk did not take it: leave it alone for a while."""
        self._jobs.pop(job)
        self._disk_rests_until = self._barren_until = now + _DISK_REST_S
        self._passing = False
        out: list[Step] = []
        if not self._jobs and self.waiting:
            out += self._serve_only()
            out += self._no_room(now)
        return out + self._serve(now)

    # ------------------------------------------------------------------ restored
    def restore(self, process: bytes, number: int, name: str, directly: bool, now: float) -> list[Step]:
        """A process reads an object whose segment is not there."""
        entry = self.entries.get(name)
        if entry is None:
            return [Here(process, number, None, True)]
        if directly:
            return [Here(process, number, entry.place, False)]
        if entry.restored:
            return [Here(process, number, None, False)]
        entry.askers.append((process, number))
        if not entry.restoring:
            entry.restoring = True
            tenant = self.quotas.of_object(name)
            self.waiting.append(RoomWant(process, 0, entry.place.length, now, name, tenant))
        return self._serve(now)

    def restored(self, name: str, ok: bool, now: float, *, lost: bool = True) -> list[Step]:
        """An object is back in memory; or not, because its copy on disk is `lost` or for a reason that may pass."""
        length = self._restoring.pop(name)
        entry = self.entries.get(name)
        if entry is None:  # freed in the meantime
            if ok:
                return [Evict(self._job({name: length}), [name])]
            self.pool += length
            return self._serve(now)
        entry.restoring = False
        askers, entry.askers = entry.askers, []
        if not ok and not lost:
            self.pool += length
            where = [Here(process, number, entry.place, False) for process, number in askers]
            return [*where, *self._serve(now)]
        out: list[Step] = [Here(process, number, None, not ok) for process, number in askers]
        if ok:
            entry.restored = True
            self._used[name] = now
            self.figures.restored_objects += 1
            self.figures.restored_bytes += entry.place.length
            return out
        self.pool += length
        del self.entries[name]
        return out + self._leave_file(entry.place.url) + self._serve(now)

    def freed(self, names: list[str]) -> list[Step]:
        """Objects that may be spilled are free: their copies go."""
        out: list[Step] = []
        evicted: dict[str, int] = {}
        for name in names:
            entry = self.entries.pop(name, None)
            if entry is None:
                continue
            out += [Here(process, number, None, True) for process, number in entry.askers]
            if entry.restored:
                evicted[name] = entry.place.length
            if entry.restoring:
                self.waiting = deque(want for want in self.waiting if want.name != name)
            out += self._leave_file(entry.place.url)
        if evicted:
            out.append(Evict(self._job(evicted), list(evicted)))
        return out

    def _leave_file(self, url: str) -> list[Step]:
        left = self._in_file[url] = self._in_file[url] - 1
        if left:
            return []
        del self._in_file[url]
        return [Delete(url)]
