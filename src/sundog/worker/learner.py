"""How the zygote learns packages that workers import again and again: tried in a child first, then loaded.

::

    node ──Learn(modules)──► zygote ── quiet ──► fork: a probe imports them and looks at itself
                                   ◄── exit status: safe, or what is wrong ──┘
                             zygote ── quiet ──► imports them itself ──Learned──► node

Owns what waits to be learned. A fork copies only the thread that forks, so what has started a thread, or holds a
connection or a device, must not be in the zygote; nor what crashes, takes too long, or loads other packages than the
workers did. Such packages are left to the workers. Runs in the zygote's only thread; the probe is a process of its own.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import NoReturn

from sundog.wire.zygote import Learn, Learned
from sundog.worker.numeric_threads import FIRST, LIMITER, held

_PROBE_S = 30
_LIBRARY = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
# These libraries start threads or open devices after their import, and do not work in a forked child.
UNSAFE = frozenset({"cupy", "grpc", "jax", "mpi4py", "pycuda", "pyspark", "ray", "tensorflow"})
_SAFE, _FAILED, _THREADS, _DESCRIPTORS, _UNSAFE, _OTHERS, _UNLIMITED = 0, 10, 11, 12, 13, 14, 15
_REASONS = {
    _FAILED: "its import fails outside of a worker",
    _THREADS: "its import starts threads",
    _DESCRIPTORS: "its import opens connections or devices",
    _UNSAFE: f"one of {', '.join(sorted(UNSAFE))} is among them",
    _OTHERS: "its import loads other packages here than in the workers",
    _UNLIMITED: f"workers could not limit its threads: {LIMITER} is not installed",
}


class Learner:
    """The packages that the zygote is asked to import. `tell` sends to the node; `become_probe` prepares a
    forked child.
    """

    def __init__(self, tell: Callable[[Learned], None], become_probe: Callable[[], None]) -> None:
        self._tell = tell
        self._become_probe = become_probe
        self._waiting: deque[Learn] = deque()
        self._tried: Learn | None = None  # found safe, and loaded at the next quiet moment
        self._probed: Learn | None = None
        self._probe = 0

    @property
    def busy(self) -> bool:
        """Whether a quiet moment could be used."""
        return self._tried is not None or (bool(self._waiting) and not self._probe)

    def ask(self, message: Learn) -> None:
        """Import these modules when no fork request waits."""
        self._waiting.append(message)

    def load_at_once(self, message: Learn) -> bool:
        """Import what the next workers need, without a probe; False if this process cannot be forked any more."""
        packages = packages_of(message.modules)
        if UNSAFE & set(packages):
            self._tell(Learned(packages, 0.0, 0, _REASONS[_UNSAFE]))
            return True
        if not _can_limit():
            self._tell(Learned(packages, 0.0, 0, _REASONS[_UNLIMITED]))
            return True
        began, before = time.monotonic(), _resident_kib()
        signal.alarm(_PROBE_S)  # ends this process; the node starts another, which imports nothing
        code = verdict(message)
        signal.alarm(0)
        if code != _SAFE:
            self._tell(Learned(packages, 0.0, 0, _REASONS[code]))
            return False
        self._loaded(packages, began, before)
        return True

    def use_quiet(self) -> None:
        """No request has come for a while: take the next step."""
        if self._tried is not None:
            message, self._tried = self._tried, None
            self._load(message)
        elif self._waiting and not self._probe:
            self._probed = self._waiting.popleft()
            pid = os.fork()
            if pid == 0:
                self._be_probe(self._probed)
            self._probe = pid

    def reaped(self, pid: int, status: int) -> bool:
        """Whether a child that ended was the probe; its result decides."""
        if pid != self._probe or self._probed is None:
            return False
        message, self._probed, self._probe = self._probed, None, 0
        code = os.waitstatus_to_exitcode(status)
        if code == _SAFE:
            self._tried = message
        else:
            took_long = code == -signal.SIGALRM
            reason = (
                f"its import takes over {_PROBE_S} s"
                if took_long
                else _REASONS.get(code, f"it ended with {code}")
            )
            self._tell(Learned(packages_of(message.modules), 0.0, 0, reason))
        return True

    def _load(self, message: Learn) -> None:
        began, before = time.monotonic(), _resident_kib()
        import_all(message)
        self._loaded(packages_of(message.modules), began, before)

    def _loaded(self, packages: list[str], began: float, before_kib: int) -> None:
        gc.collect()
        gc.freeze()
        grown = max(0, _resident_kib() - before_kib)
        self._tell(Learned(packages, time.monotonic() - began, grown, ""))

    def _be_probe(self, message: Learn) -> NoReturn:
        code = _FAILED
        try:
            self._become_probe()
            signal.alarm(_PROBE_S)
            code = verdict(message)
        finally:
            os._exit(code)


def verdict(message: Learn) -> int:
    """Import the modules in this process, and say whether the process can still be forked safely."""
    loaded, held = set(sys.modules), _held()
    if not import_all(message):
        return _FAILED
    if len(os.listdir("/proc/self/task")) > 1:
        return _THREADS
    fresh = set(sys.modules) - loaded - {LIMITER}
    if FIRST in fresh and LIMITER not in sys.modules:
        return _UNLIMITED
    if {name.partition(".")[0] for name in fresh} & UNSAFE:
        return _UNSAFE
    if not all(_is_theirs(name, message) for name in fresh):
        return _OTHERS
    return _SAFE if _held() <= held else _DESCRIPTORS


def _can_limit() -> bool:
    """Whether workers can tell numeric libraries how many threads to use, if the zygote loads them."""
    with contextlib.suppress(ImportError):
        __import__(LIMITER)
    return LIMITER in sys.modules


def import_all(message: Learn) -> bool:
    """Import what can be imported; whether every package is there afterwards.

    Numeric libraries are held to one thread (`numeric_threads`).
    """
    added = [folder for folder in message.folders if folder not in sys.path]
    sys.path += added
    try:
        with held():
            for name in message.modules:
                with contextlib.suppress(Exception):
                    __import__(name)
    finally:
        for folder in added:
            sys.path.remove(folder)
    return all(name in sys.modules for name in packages_of(message.modules))


def _is_theirs(name: str, message: Learn) -> bool:
    """Whether a module belongs to the library, or to a package that workers have loaded, wherever its file
    is.
    """
    file = getattr(sys.modules.get(name), "__file__", None)
    if not isinstance(file, str) or (file.startswith(_LIBRARY) and "-packages/" not in file):
        return True  # some extension modules create modules without a file
    if not os.path.isabs(file):
        return True  # a module that another one has made up: torch.ops says it is in "_ops.py"
    roots = [f"{folder}/{package}" for folder in message.folders for package in message.packages]
    return any(file.startswith((f"{root}/", f"{root}.")) for root in roots)


def packages_of(modules: list[str]) -> list[str]:
    """The packages that modules belong to.

    >>> packages_of(["a.b", "c", "a"])
    ['a', 'c']
    """
    return sorted({name.partition(".")[0] for name in modules})


def _held() -> set[str]:
    """What this process has open besides files: sockets, devices, kernel queues."""
    held = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{name}")
            if not target.startswith("/") or target.startswith("/dev/nvidia"):
                held.add(target)
    return held


def _resident_kib() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * (os.sysconf("SC_PAGE_SIZE") // 1024)
