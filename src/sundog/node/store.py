"""The node's side of the object store: carries out what `sundog.state.store` decides.

::

    processes ── store_ask, store_restore, store_freed, store_trimmed ──► StoreKeeper ──► Store (pure)
    processes ◄─ store_grant, store_restored, store_trim, store_collect ──┤
                                                                          └─ I/O threads: scan, spill, restore,
                                                                             delete (store/spill.py)

Messages are handled on the node's only thread. What touches a disk runs in a few threads, which are started when
the store is short for the first time; their results come back through an eventfd. A spilled segment leaves shared
memory by a rename on the main thread, after its copy is complete: from then on, and not before, the table knows
it, so a reader that finds no file always gets a true answer. If the rename fails the object was freed meanwhile, and
the copy is forgotten.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from sundog.node.rows import Process
from sundog.state import store_steps as machine
from sundog.state.store import Store
from sundog.state.store_steps import SpillPlace, Step
from sundog.store import places
from sundog.store.folders import Destination, destinations
from sundog.store.segments import RESTORED
from sundog.wire.control import (
    FromNode,
    StoreAsk,
    StoreCollect,
    StoreFreed,
    StoreGrant,
    StoreNotice,
    StoreRestore,
    StoreRestored,
    StoreTrim,
    StoreTrimmed,
    StoreUnsent,
)

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from sundog.node.interfaces import WithFacts, WithTenants
    from sundog.node.memory import MemoryKeeper
    from sundog.store.spill import SpillTarget

    class StoreNode(WithFacts, WithTenants, Protocol):
        """What the store of one node asks of the node."""

        @property
        def memory(self) -> MemoryKeeper:
            """The memory monitor."""


_TICK_S = 0.02
_DISK_LOOK_S = 5.0
_DISK_CALM = 0.02  # how far below the threshold the disk usage must fall before a second warning
_GIB = 1 << 30
_WRITING_S = 1.0
_CLEAR_S = 4.0  # less than the 5 s that a driver waits for its node to end


class StoreKeeper:
    """Keeps the store of one node within its limit."""

    def __init__(
        self, node: StoreNode, node_id: bytes, shm_root: str, spill_folders: list[str], limit: int
    ) -> None:
        self.node = node
        self.node_id = node_id
        self.tag = places.base_of(shm_root)[1]
        config = node.config
        self.store = Store(
            limit,
            ahead=int(limit * (1.0 - config.object_spilling_threshold)),
            spilling=config.automatic_object_spilling_enabled,
            fallback=config.store_fallback_to_disk,
            fuse_bytes=config.min_spilling_size,
            fuse_count=config.max_fused_object_count,
        )
        self.shm_root = shm_root
        self.folders = spill_folders
        self._destinations = destinations(
            config.object_spilling_directory, config.object_spilling_config
        ) or [Destination(self.folders[0], {})]
        self._targets: list[SpillTarget] = []
        self._pool: ThreadPoolExecutor | None = None
        self._working: set[Future[None]] = set()
        self._done: deque[Callable[[], None]] = deque()
        self._wake = -1
        self._files = itertools.count()
        self._ticking = False
        self._told_bytes = 0
        self._disk_warned = False
        self._disk_looked = 0.0
        self._failed_once = False
        self._told_limits: set[str] = set()  # jobs that were warned of their own limit

    # ------------------------------------------------------------------ messages
    def ask(self, process: Process, message: StoreAsk) -> None:
        """A process needs credit."""
        self._know_all()
        _, number, missing, left, got = message
        self.do(self.store.ask(process.process_id, number, missing, left, got, self.node.now()))

    def restore(self, process: Process, message: StoreRestore) -> None:
        """A process found no file for an object."""
        self._know_all()
        _, number, name, directly = message
        self.do(self.store.restore(process.process_id, number, name, directly, self.node.now()))

    def freed(self, _process: Process, message: StoreFreed) -> None:
        """An object is free whose file was not there."""
        self.do(self.store.freed([message.name]))

    def trimmed(self, process: Process, message: StoreTrimmed) -> None:
        """A process released what it could."""
        self.do(self.store.trimmed(process.process_id, *message[1:]))

    def _know_all(self) -> None:
        """A process that never asked may have views and mappings too, so a round must reach every process."""
        for process_id, process in self.node.processes.items():
            if process.state != "starting" and process.node_id == self.node_id:
                self.store.process_started(process_id)

    def process_died(self, process_id: bytes) -> None:
        """A process is gone, with its objects and its credit."""
        self.do(self.store.process_died(process_id, self.node.now()))

    def tell_unsent(self, maker: bytes) -> None:
        """After an owner heard of a death: spilled results of its tasks, in case the dead did not live to tell."""
        for owner, names in self.store.made_by(maker).items():
            self._send(owner, StoreUnsent(names))

    def figures(self) -> dict[str, int]:
        """For `sundog status`."""
        figures = self.store.figures
        return {
            "limit_bytes": self.store.limit,
            "spilled_objects": len(self.store.entries),
            "spilled_bytes": sum(entry.place.length for entry in self.store.entries.values()),
            "spilled_bytes_total": figures.spilled_bytes,
            "restored_bytes_total": figures.restored_bytes,
        }

    # ------------------------------------------------------------------ time
    def _tick(self) -> None:
        self._ticking = False
        self.do(self.store.tick(self.node.now()))

    def slow_tick(self) -> None:
        """About every second: see how full the store is, and watch the disk that objects are spilled to."""
        now = self.node.now()
        self.do(self.store.look(now))
        if now - self._disk_looked >= _DISK_LOOK_S:
            self._disk_looked = now
            self._look_at_disk()

    def _look_at_disk(self) -> None:
        threshold = self.node.config.local_fs_capacity_threshold
        for folder in self.folders:
            used, total = disk_usage(folder)
            if not total:
                continue
            share = used / total
            if share >= threshold and not self._disk_warned:
                self._disk_warned = True
                self.notice(
                    f"WARNING: the disk that objects are spilled to ({folder}) is {share:.0%} full: {total - used:,} "
                    f"of {total:,} bytes are free. When it is full, puts that find no room in memory raise "
                    "OutOfDiskError. Make room there, or spill elsewhere with object_spilling_directory."
                )
            elif share < threshold - _DISK_CALM:
                self._disk_warned = False

    def notice(self, text: str) -> None:
        """Tell every driver something, and the log."""
        self.node.log(text)
        for process in self.node.processes.values():
            if process.kind == "driver":
                process.line.send(StoreNotice(text))

    # ------------------------------------------------------------------ instructions
    def do(self, steps: Iterable[Step]) -> None:
        """Carry out what the machine says."""
        for step in steps:
            self._STEPS[type(step)](self, step)
        if not self._ticking and self.store.busy():
            self._ticking = True
            self.node.loop.after(_TICK_S, self._tick)

    def _send(self, process_id: bytes, message: FromNode) -> None:
        process = self.node.processes.get(process_id)
        if process is not None:
            process.line.send(message)

    def _granted(self, step: machine.Granted) -> None:
        self._send(step.process, StoreGrant(step.number, "granted", step.amount))

    def _refused(self, step: machine.RoomRefused) -> None:
        text = self._limit_text(step.tenant) if step.tenant else ""
        if step.tenant and not step.full:
            self._tell_of_limit(step.tenant)
        self._send(step.process, StoreGrant(step.number, "full" if step.full else "disk", 0, text))

    def _trim(self, step: machine.Trim) -> None:
        if step.process not in self.node.processes:
            self.process_died(step.process)
        else:
            self._send(step.process, StoreTrim(step.round))

    def _collect(self, _step: machine.Collect) -> None:
        for process in self.node.processes.values():
            if process.state != "starting" and process.node_id == self.node_id:
                process.line.send(StoreCollect())

    def _scan(self, step: machine.Scan) -> None:
        from sundog.store import spill

        def scanned(result: Any, error: BaseException | None) -> None:
            found, other = result if error is None else ({}, 0)
            self.do(self.store.scanned(step.round, found, other, self.node.now()))

        self._in_thread(lambda: spill.scan(self.shm_root, step.remove), scanned)

    def _spill(self, step: machine.Spill) -> None:
        target = self._target(step.job)
        at_home = {name for name in step.names if self._has_home(name)}
        sources = [(name, f"{self.shm_root}/{name}") for name in step.names if name not in at_home]
        file = f"spilled-{next(self._files)}"
        began, pressed = self.node.now(), self.store.quotas.pressed

        def spilled(result: Any, error: BaseException | None) -> None:
            if error is not None:
                self._spill_failed(step, error)
                return
            url, copied = result
            leaving = [*at_home, *[name for name, _, _ in copied]]
            names = {name for name in leaving if self._move_away(name)}
            moved = [row for row in copied if row[0] in names]
            self.do(self.store.spilled(step.job, url, moved, dropped=at_home & names))
            self._release(step.job, [f"{self.shm_root}/gone-{name}" for name in names])
            if moved:
                self.node.chronicle.spilled(url, moved, self.node.now() - began)
                tenants = {self.store.quotas.of_object(row[0]) for row in moved}
                for tenant in tenants & pressed:
                    self._tell_of_limit(tenant)
                if tenants - pressed:
                    self._tell_of_spilling()

        self._in_thread(lambda: target.write(file, sources) if sources else ("", []), spilled)

    def _has_home(self, name: str) -> bool:
        """Whether this is a copy of an object that its own node still has in memory."""
        tag = places.tag_of(name)
        if tag == self.tag:
            return False
        base = places.base_of(self.shm_root)[0]
        return os.path.exists(f"{places.shared_root(base, tag)}/{name}")

    def _move_away(self, name: str) -> bool:
        try:
            os.rename(f"{self.shm_root}/{name}", f"{self.shm_root}/gone-{name}")
        except OSError:
            return False
        return True

    def _spill_failed(self, step: machine.Spill, error: BaseException) -> None:
        self.node.log(f"spilling failed: {error!r}")
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        if not full and not self._failed_once:
            self._failed_once = True
            self.notice(
                f"WARNING: objects could not be spilled to {self._destinations[0].url}: {error}. Puts that find no "
                f"room in memory go to {self.folders[0]} instead."
            )
        self.do(self.store.spill_failed(step.job, self.node.now()))

    def _tell_of_spilling(self) -> None:
        total = self.store.figures.spilled_bytes
        step = self.node.config.verbose_spill_logs
        if not step or total < self._told_bytes:
            return
        first = self._told_bytes == 0
        self._told_bytes = max(step, 2 * total)
        if first:
            text = (
                f"The object store reached its limit of {self.store.limit / _GIB:.2f} GiB: old objects are "
                f"moved to {self._destinations[0].url}, and read back when needed. That is slow: give the store more "
                "with init(object_store_memory=…), or free refs that you no longer need."
            )
        else:
            count = self.store.figures.spilled_objects
            text = f"Spilled {total / _GIB:.1f} GiB in {count:,} objects so far."
        self.notice(text)

    def _tell_of_limit(self, tenant: str) -> None:
        """Tell the drivers of a job, once, that it fills what it may fill of the store."""
        if tenant in self._told_limits or tenant not in self.store.quotas.limits:
            return
        self._told_limits.add(tenant)
        text = self._limit_text(tenant)
        self.node.log(text)
        for process in self.node.processes.values():
            if process.kind == "driver" and self.node.tenancy.of(process.job_id) == tenant:
                process.line.send(StoreNotice(f"WARNING: {text}"))

    def _limit_text(self, tenant: str) -> str:
        """What a job at its limit should know: the limit, which process holds most, what to do."""
        quotas = self.store.quotas
        rows = [f"{self._holder(row.process)} {row.bytes / 1e6:,.1f} MB" for row in quotas.holders(tenant)]
        return (
            f"Job {tenant} has reached its limit in the object store, {quotas.limits[tenant] / 1e6:,.1f} MB "
            f"(--object-store): {quotas.used(tenant) / 1e6:,.1f} MB are in objects of its own"
            f"{' (owned by ' + ', '.join(rows) + ')' if rows else ''}. The objects used longest ago are moved to "
            "disk; objects that cannot be moved leave no room in memory for new ones. Free refs that the job no longer "
            "needs, or submit it with a larger --object-store. See: sundog memory"
        )

    def _holder(self, process_id: bytes) -> str:
        process = self.node.processes.get(process_id)
        if process is None:
            return "a process that is gone"
        what = "driver" if process.kind == "driver" else self.node.memory.rounds.what(process_id)
        return f"{what} pid {process.pid}:"

    def _evict(self, step: machine.Evict) -> None:
        self._release(step.job, [f"{self.shm_root}/{RESTORED}/{name}" for name in step.names])

    def _release(self, job: int, paths: list[str]) -> None:
        """Remove files from memory. Not on this thread: to free the pages of a gigabyte takes a while."""

        def released(_result: object, _error: BaseException | None) -> None:
            self.do(self.store.released(job, self.node.now()))

        self._in_thread(lambda: _unlink_all(paths), released)

    def _restore(self, step: machine.Restore) -> None:
        from sundog.store import spill

        target = self._target_of(step.place.url)
        began = self.node.now()

        def restored(_: object, error: BaseException | None) -> None:
            if error is not None:
                self.node.log(f"{step.name} cannot be restored from {step.place.url}: {error!r}")
            else:
                self.node.chronicle.restored(step.name, step.place.length, self.node.now() - began)
            self.do(self.store.restored(step.name, error is None, self.node.now(), lost=_is_loss(error)))

        self._in_thread(lambda: spill.restore(target, step.place, self.shm_root, step.name), restored)

    def _here(self, step: machine.Here) -> None:
        place = step.place
        if place is None:
            self._send(step.process, StoreRestored(step.number, None if step.lost else RESTORED))
        elif self._is_local(place):
            self._send(step.process, StoreRestored(step.number, (place.url, place.offset)))
        else:
            self._fetch(step, place)

    def _fetch(self, step: machine.Here, place: SpillPlace) -> None:
        """No room in memory for an object that is far away: it is read from the disk behind the store."""
        path = f"{self.folders[0]}/fetched-{next(self._files)}"
        target = self._target_of(place.url)

        def work() -> None:
            os.makedirs(self.folders[0], mode=0o700, exist_ok=True)
            target.read(place, path)

        def fetched(_: object, error: BaseException | None) -> None:
            if error is not None:
                self.node.log(f"{place.url} cannot be fetched: {error!r}")
            answer = (path, 0) if error is None else None if _is_loss(error) else (f"{place.url}: {error}",)
            self._send(step.process, StoreRestored(step.number, answer))
            # The reader maps the file in a moment; the pages outlive the file's name.
            self.node.loop.after(30.0, lambda: self._in_thread(lambda: _unlink_all([path])))

        self._in_thread(work, fetched)

    def _delete(self, step: machine.Delete) -> None:
        target = self._target_of(step.url)
        self._in_thread(lambda: target.delete(step.url))

    _STEPS: dict[type, Callable[[StoreKeeper, Any], None]] = {
        machine.Granted: _granted,
        machine.RoomRefused: _refused,
        machine.Trim: _trim,
        machine.Collect: _collect,
        machine.Scan: _scan,
        machine.Spill: _spill,
        machine.Evict: _evict,
        machine.Restore: _restore,
        machine.Here: _here,
        machine.Delete: _delete,
    }

    # ------------------------------------------------------------------ targets
    def _all_targets(self) -> list[SpillTarget]:
        if not self._targets:
            from sundog.store import spill

            local = iter(self.folders)
            for destination in self._destinations:
                folder = next(local) if destination.folder is not None else ""
                self._targets.append(spill.target_for(destination, self.node.session["name"], folder))
        return self._targets

    def _target(self, job: int) -> SpillTarget:
        targets = self._all_targets()
        return targets[job % len(targets)]

    def _is_local(self, place: SpillPlace) -> bool:
        return any(place.url.startswith(f"{folder}/") for folder in self.folders)

    def _target_of(self, url: str) -> SpillTarget:
        return next(target for target in self._all_targets() if target.holds(url))

    # ------------------------------------------------------------------ threads
    def _in_thread(
        self,
        work: Callable[[], object],
        then: Callable[[object, BaseException | None], None] | None = None,
    ) -> None:
        """Do something that blocks elsewhere; `then` gets its result here, on the node's thread."""
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(self.node.config.max_io_workers, thread_name_prefix="sundog-io")
            self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            self.node.loop.add(self._wake, self._woken)

        def run() -> None:
            result, error = None, None
            try:
                result = work()
            except BaseException as caught:
                error = caught
            if then is not None:
                self._done.append(lambda: then(result, error))
                with contextlib.suppress(OSError):
                    os.eventfd_write(self._wake, 1)

        future = self._pool.submit(run)
        self._working.add(future)
        future.add_done_callback(self._working.discard)

    def _woken(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake)
        while self._done:
            self._done.popleft()()

    def lost(self) -> None:
        """The node of this store is gone: every process that waits for an object of that store receives an error."""
        for entry in self.store.entries.values():
            for process_id, number in entry.askers:
                self._send(process_id, StoreRestored(number, None))
        for want in self.store.waiting:
            if want.name:
                self._send(want.process, StoreRestored(want.number, None))
        self.close()

    def close(self) -> None:
        """The session ends: what was spilled goes, as far as it can be reached in a few seconds."""
        if self._pool is not None:
            from concurrent.futures import wait

            # A copy in progress would otherwise be written after the removal, and create its folder again.
            self._pool.shutdown(wait=False, cancel_futures=True)
            wait(list(self._working), _WRITING_S)
        if any(destination.folder is None for destination in self._destinations):
            # A storage service that does not answer must not keep this process alive.
            clearing = threading.Thread(target=self._clear, daemon=True)
            clearing.start()
            clearing.join(_CLEAR_S)

    def _clear(self) -> None:
        for target in self._targets:
            with contextlib.suppress(Exception):
                target.clear()


def _is_loss(error: BaseException | None) -> bool:
    """Whether an error says that a copy is gone, or cannot be read from its disk; others may pass."""
    return isinstance(error, FileNotFoundError) or (isinstance(error, OSError) and error.errno == errno.EIO)


def disk_usage(folder: str) -> tuple[int, int]:
    """Bytes used of a disk, and its size as an ordinary user sees it; zeros if the folder is not there."""
    while folder and not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0, 0
    used = (found.f_blocks - found.f_bfree) * found.f_frsize
    return used, used + found.f_bavail * found.f_frsize


def _unlink_all(paths: list[str]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            os.unlink(path)
