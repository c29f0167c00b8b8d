"""This process in a Ray cluster: its ids there, and its flight recorder.

Owns the one `ClusterProcess` of a driver or worker, with its ring in the folder of Ray's session on this machine. Ids
in the ring are sundog's: 8 bytes of the owner and 8 of the task. The process that submits knows both; the process that
runs a task knows its own 8 bytes only, and leaves the owner's empty: Home puts the two together
(`ray_engine/home.py`). Nothing is sent from here. Runs in drivers and workers, on any thread.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from importlib import import_module
from typing import TYPE_CHECKING

from sundog import config, events, notices, trust
from sundog.owner.call_sites import MARK
from sundog.ray_engine import asks, faults
from sundog.ray_engine.pushes import HERE, Pusher
from sundog.ray_engine.task_ids import CREATES, unique_of
from sundog.refs import site_of

if TYPE_CHECKING:
    from types import FrameType

    from sundog.actor import ActorHandle
    from sundog.ray_engine import theirs
    from sundog.ray_engine.runs import RunningShim
    from sundog.worker.meter import ThreadsMeter

_WORKER_EVENTS, _DRIVER_EVENTS = 1 << 14, 1 << 18
_LARGE_BYTES = 1 << 16
_U32 = (1 << 32) - 1
_NOBODY = bytes(8)
_time = time.time
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

me: ClusterProcess | None = None
"""This process, once it is connected."""
_lock = threading.Lock()


class Identity:
    """The ids of a process in its cluster."""

    __slots__ = ("job", "node", "pid", "process_id", "role", "session_dir")

    def __init__(self, worker: theirs.RaysWorker, role: str) -> None:
        from ray._private import worker as rays

        self.role = role
        self.pid = os.getpid()
        self.job = worker.current_job_id.hex()
        self.node = worker.current_node_id.hex()
        self.process_id = worker.core_worker.get_worker_id().binary()[:8]
        node = rays._global_node
        self.session_dir = node.get_session_dir_path() if node is not None else ""

    def facts(self) -> dict[str, object]:
        """The same, as it is sent."""
        return {
            "process": self.process_id.hex(),
            "node": self.node,
            "job": self.job,
            "pid": self.pid,
            "role": self.role,
        }


def node_folder(session_dir: str, job: str, node: str) -> str:
    """Where the processes of a job on a node keep their records until they are brought home."""
    return f"{_own_folder(session_dir)}/{job}/{node}"


def _own_folder(session_dir: str) -> str:
    """This user's folder in that of Ray's session, in which every user of the machine can write."""
    return f"{session_dir}/sundog-{os.geteuid()}"


class ClusterProcess:
    """A driver or worker that is connected to a cluster."""

    _ref_type: type = object  # of Ray

    def __init__(self, role: str) -> None:
        from ray._private import worker as rays

        self.identity = Identity(rays.global_worker, role)
        self._core: theirs.RaysCore = rays.global_worker.core_worker
        self.folder = ""
        self.config = config.load()
        self.ring: events.Ring | None = None
        self._meter: ThreadsMeter | None = None
        self._places: dict[tuple[int, int, str], tuple[int, object]] = {}
        self._ref_type = import_module("ray").ObjectRef
        self.pusher: Pusher | None = None  # for a worker on another node than Home

    def record(self) -> None:
        """Open the ring.

        Raises:
            trust.Untrusted: another user made the folder first.
        """
        from sundog.worker.meter import ThreadsMeter

        identity = self.identity
        trust.make_folder(_own_folder(identity.session_dir))
        self.folder = node_folder(identity.session_dir, identity.job, identity.node)
        os.makedirs(f"{self.folder}/rings", 0o700, exist_ok=True)
        path = f"{self.folder}/rings/{identity.process_id.hex()}.ring"
        with open(f"{path}.json", "w", encoding="utf-8") as file:
            json.dump(identity.facts(), file)
        capacity = _DRIVER_EVENTS if identity.role == "driver" else _WORKER_EVENTS
        self.ring = events.Ring(path, capacity, identity.role, bytes.fromhex(identity.job))
        self.ring.note("home", node=identity.node)
        self._meter = ThreadsMeter(self.ring)
        if identity.role == "worker":
            with contextlib.suppress(OSError, ValueError):  # a program may have a handler of its own
                faults.listen(path)
                asks.listen(path)
        if identity.role == "worker" and not os.path.exists(f"{self.folder}/{HERE}"):
            self.pusher = Pusher(path, identity.job, self.config.push_interval_s)

    def close(self) -> None:
        """The session is over."""
        if self.pusher is not None:
            self.pusher.stop()
        faults.stop()
        if self.ring is not None:
            if self.identity.role == "worker":
                asks.ask(self.ring.path, asks.END)
            self.ring.close()
            self.ring = None

    # ------------------------------------------------------------------ running
    def current_task(self) -> tuple[bytes, int]:
        """The id of the task that runs in this thread, without the part of its owner; and the number of the attempt."""
        core = self._core
        task = unique_of(core.get_current_task_id().binary())
        return _NOBODY + task, core.get_current_task_attempt_number()

    def ended(self, execution: RunningShim, error: BaseException | None) -> None:
        """Note that a task or call ended here."""
        ring, meter = self.ring, self._meter
        if ring is None or meter is None:
            return
        failed = error is not None and not _is_in_order(error)
        meter.write(
            execution.kind,
            execution.task,
            execution.number,
            0.0,
            execution.start_s,
            _time(),
            events.FAILED if failed else 0,
            execution.attempt,
        )
        if failed:
            assert error is not None
            text = f"{type(error).__name__}: {error}"
            ring.note(
                "error",
                task=execution.task.hex(),
                attempt=execution.attempt,
                type="TASK_EXECUTION_EXCEPTION",
                message=text,
            )
            self._keep_capsule(execution, error)
        elif execution.kind == events.CREATE:
            from sundog.ray_engine import capsules

            capsules.constructed(execution)

    def _keep_capsule(self, execution: RunningShim, error: BaseException) -> None:
        from sundog.ray_engine import capsules

        # Arguments that cannot be pickled, or a full disk: the user's own error must be raised.
        with contextlib.suppress(Exception):
            capsules.failed(self.folder, execution, error, self.config)

    # ------------------------------------------------------------------ submitting
    def submitted(self, refs: object, name: str, submit_s: float, args: tuple[object, ...] = ()) -> None:
        """Note that a task or call was submitted here, and how many bytes of arguments it carries by value."""
        ref = refs
        if type(refs) is not self._ref_type:  # several results, or a generator
            ref = refs[0] if type(refs) is list and refs else refs
            ref = getattr(ref, "_generator_ref", ref)
        task_id = getattr(ref, "task_id", None)
        if task_id is None:
            return
        unique = unique_of(task_id().binary())
        self.note_submission(unique, name, submit_s)
        if args and self.ring is not None:
            size = 0
            for each in args:
                size += len(each) if isinstance(each, (bytes, str)) else getattr(each, "nbytes", 0)
            if size >= _LARGE_BYTES:
                task = self.identity.process_id + unique
                self.ring.write(events.MOVED, task, min(size, _U32), 0, submit_s, submit_s)

    def created(self, handle: ActorHandle[object], name: str, submit_s: float) -> None:
        """Note that an actor was created here."""
        self.note_submission(unique_of(CREATES + handle._actor_id.binary()), name, submit_s)

    def note_submission(self, unique: bytes, name: str, submit_s: float) -> None:
        """Note which process submitted a task, when and where."""
        ring = self.ring
        if ring is not None:
            frame = _users_frame()
            # By its address: Python hashes all of a code object each time. The table keeps it, so the address too.
            key = (id(frame.f_code), frame.f_lasti, name)
            place = self._places.get(key)
            if place is None:
                number = ring.name(site_of(frame.f_code, frame.f_lasti), MARK + name)
                place = self._places[key] = (number, frame.f_code)
            ring.write(events.SITE, self.identity.process_id + unique, place[0], submit_s, submit_s, submit_s)

    def span(
        self, kind: int, refs: object, start_s: float, end_s: float, failed: bool, size: int = 0
    ) -> None:
        """Note a get, put or wait."""
        ring = self.ring
        if ring is None:
            return
        first = (refs[0] if refs else None) if isinstance(refs, (list, tuple)) else refs
        find = getattr(first, "task_id", None)
        task = _NOBODY + (unique_of(find().binary()) if find is not None else _NOBODY)
        flags = events.FAILED if failed else 0
        frame = _users_frame()
        place = ring.name(site_of(frame.f_code, frame.f_lasti))
        ring.write(kind, task, place, 0.0, start_s, end_s, flags, 0, 0.0, size)


def _is_in_order(error: BaseException) -> bool:
    """Whether it is how a call ends on purpose: exit_actor(), and a generator whose reader stopped."""
    return isinstance(error, (SystemExit, GeneratorExit)) or type(error).__name__ == "AsyncioActorExit"


def _users_frame() -> FrameType:
    """The frame of the user's program that led here."""
    frame = sys._getframe(2)
    while frame.f_back is not None:
        path = frame.f_code.co_filename
        library = _libraries.get(path)
        if library is None:
            library = _libraries[path] = path.startswith((_OURS, "<")) or f"{os.sep}ray{os.sep}" in path
        if not library:
            break
        frame = frame.f_back
    return frame


_libraries: dict[str, bool] = {}


def ready(role: str = "worker") -> ClusterProcess:
    """This process, with its ring: made at the first call."""
    global me
    found = me
    if found is None:
        with _lock:
            if me is None:
                made = ClusterProcess(role)
                if made.identity.session_dir and made.config.record_enabled:
                    try:
                        made.record()
                    except trust.Untrusted as error:
                        notices.warn(
                            f"Nothing is recorded here: {error.filename} is not used, {error.strerror}."
                        )
                me = made
            found = me
    return found


def leave() -> None:
    """The session is over."""
    global me
    with _lock:
        found, me = me, None
    if found is not None:
        found.close()
