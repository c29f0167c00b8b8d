"""Making a capsule where a task has run: its function and arguments are still at hand there.

Owns what goes in (values up to a size, the environment without secrets, the states of random generators if they were
noted before the run), the quota of a session and the pace: of each function the first twenty failures of a process,
then one a second. Refuses to change the outcome of a task: the caller swallows its errors. Runs in a worker, in
the thread of the task.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import traceback
from _blake2 import blake2b
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from sundog import secrecy, trust
from sundog.capsules.rows import SUFFIX, Contents, Header, Lent, Outcome, Packed, ProcessFields, write
from sundog.config import user_environ
from sundog.plain import NamedTuple
from sundog.profilers import load, loaded

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from sundog.store.segments import Location

_FIRST = 20  # arbitrary: enough to see whether failures are alike
_THEN_S = 1.0
_TEXT_MAX = 2000
_SAMPLES = 64
_SAMPLE_BYTES = 1 << 20
_RESULT_MAX_BYTES = 16 << 20
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# (meta, location) of the wire -> views of the buffers; raises if they are gone.
View = Callable[["Location", bytes], list[memoryview]]


class Randomness(NamedTuple):
    """The states of the random generators before a run."""

    python: tuple[object, ...] | None = None
    numpy: object = None


def note_randomness() -> Randomness:
    """The states as they are now."""
    import random

    # numpy imports this part at its first use; import it now, so that the random state is known.
    random_numbers = load("numpy.random") if loaded("numpy") is not None else None
    return Randomness(random.getstate(), random_numbers.get_state() if random_numbers is not None else None)


class CapsulePace:
    """Which failures of a process are worth a capsule: a flood of them must not cost more than they do."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: dict[str, int] = {}
        self._last: dict[str, float] = {}

    def allows(self, name: str) -> bool:
        """Whether the next failure of a function is kept."""
        count = self._counts[name] = self._counts.get(name, 0) + 1
        now = self._clock()
        if count > _FIRST and now - self._last.get(name, 0.0) < _THEN_S:
            return False
        self._last[name] = now
        return True


class Packer:
    """Values off the wire into a capsule, until its room is spent."""

    def __init__(self, max_bytes: int, view: View, shm_root: str) -> None:
        self._left = max_bytes
        self._view = view
        self._shm_root = shm_root
        self.absent: list[str] = []

    def arguments(self, args: Any) -> Packed | None:
        """What stands for arguments on the wire: None, a stream, or an object of its own."""
        if args is None:
            return None
        if type(args) is bytes:
            self._left -= len(args)
            return Packed(args)
        _, oid, meta, location = args
        return self.value(meta, location, oid)

    def value(self, meta: bytes, location: Location | None, oid: bytes) -> Packed:
        """One value of the wire."""
        self._left -= len(meta)
        if location is None:
            return Packed(meta)
        views = self._view(location, oid)
        size = sum(each.nbytes for each in views)
        if size <= self._left:
            self._left -= size
            return Packed(meta, tuple(bytes(each) for each in views))
        name, _, offsets = location
        self.absent.append(f"{oid.hex()} ({size / (1 << 20):.0f} MiB)")
        path = name if os.path.isabs(name) else f"{self._shm_root}/{name}"
        return Packed(meta, Lent(path, tuple(offsets), digest_of(views)))


def digest_of(views: Iterable[Buffer]) -> str:
    """A digest of buffers: of all bytes of small ones, of samples over the whole of large ones."""
    digest = blake2b(digest_size=16)
    for view in views:
        whole = memoryview(view).cast("B")
        size = whole.nbytes
        digest.update(size.to_bytes(8, "little"))
        if size <= _SAMPLES * _SAMPLE_BYTES:
            digest.update(whole)
            continue
        for number in range(_SAMPLES):
            start = (size - _SAMPLE_BYTES) * number // (_SAMPLES - 1)
            digest.update(whole[start : start + _SAMPLE_BYTES])
    return digest.hexdigest()


def outcome_of_error(error: BaseException) -> Outcome:
    """How a run ended that raised."""
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        path = frame.f_code.co_filename
        if not path.startswith(_OURS):
            place = f"{path}:{line} {frame.f_code.co_qualname}"
    return Outcome(type(error).__name__, _text(error), place)


def outcome_of_result(result: object) -> Outcome:
    """How a run ended that returned."""
    digest = ""
    with contextlib.suppress(Exception):
        import cloudpickle

        blob = cloudpickle.dumps(result, 5)
        if len(blob) <= _RESULT_MAX_BYTES:
            digest = blake2b(blob, digest_size=16).hexdigest()
    return Outcome(text=_repr(result), digest=digest)


def _text(error: BaseException) -> str:
    try:
        return str(error)[:_TEXT_MAX]
    except BaseException as trouble:  # user code, which may raise anything
        return f"(its text cannot be had: {type(trouble).__name__})"


def _repr(value: object) -> str:
    try:
        return repr(value)[:_TEXT_MAX]
    except BaseException as trouble:  # user code, which may raise anything
        return f"<{type(value).__name__}, whose repr raises {type(trouble).__name__}>"


def source_of(function: object) -> str:
    """file:line of a function or class; "" of what is not written in Python."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is not None:
        return f"{code.co_filename}:{code.co_firstlineno}"
    for member in vars(function).values() if isinstance(function, type) else ():
        inner = getattr(member, "__code__", None)
        if inner is not None:
            return f"{inner.co_filename}:{inner.co_firstlineno}"
    return ""


def versions() -> dict[str, str]:
    """Of Python, sundog and what else the result may depend on, as far as it is loaded."""
    found = {"python": sys.version.split()[0], "hash seed": user_environ().get("PYTHONHASHSEED", "random")}
    for name in ("sundog", "numpy", "pandas", "torch", "cloudpickle"):
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            found[name] = str(version)
    return found


def is_named_ray() -> bool:
    """Whether `import ray` gives sundog in this process, as in programs that `sundog run` starts."""
    compat = sys.modules.get("sundog.compat")  # a higher layer, which is loaded only if it is wanted
    return compat is not None and bool(compat.installed())


def surroundings() -> ProcessFields:
    """The fields of `Contents` that are the process's, not the task's."""
    folder = ""
    with contextlib.suppress(OSError):
        folder = os.getcwd()
    return {
        "environ": secrecy.without_secrets(user_environ()),
        "folder": folder,
        "import_paths": tuple(sys.path),
    }


def keep(session_path: str, header: Header, contents: Contents, quota_bytes: int, quota_files: int) -> str:
    """Write a capsule into the session's folder; the oldest ones go if the quota is spent. Returns its path.

    Raises:
        OSError: the disk is full, or the folder is not this user's.
    """
    folder = f"{session_path}/capsules"
    trust.make_folder(folder)
    path = f"{folder}/{header.task_id}-{header.attempt}{SUFFIX}"
    write(path, header, contents)
    _make_room(folder, path, quota_bytes, quota_files)
    return path


def _make_room(folder: str, newest: str, quota_bytes: int, quota_files: int) -> None:
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                info = entry.stat(follow_symlinks=False)
                found.append((info.st_mtime, info.st_size, entry.path))
    found.sort(reverse=True)
    total = 0
    for count, (_, size, path) in enumerate(found, 1):
        total += size
        if path != newest and (total > quota_bytes or count > quota_files):
            with contextlib.suppress(OSError):
                os.unlink(path)
