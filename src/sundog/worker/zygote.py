"""The zygote: imports the worker's runtime once and is the only process that forks.

::

    node ──Fork(worker id, spec) + control socket──► zygote ──fork (≈1 ms)──► worker
    node ◄──Forked(worker id, pid), Exited(pid, status, peak memory)── zygote

Single-threaded for ever, so that a fork copies no lock in a locked state. Requests queue in its socket,
so nobody waits for it to come up. When the node is gone it removes the session's shared memory and ends:
after a SIGKILL of the node it is the one process that still knows what to clean.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import codecs
import contextlib
import gc
import os
import pickle
import select
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

from sundog import titles
from sundog.config import Config, set_child_environ, user_environ
from sundog.early import untuned
from sundog.isolation import also_find
from sundog.net import sockets as socket
from sundog.net.packets import Connection
from sundog.net.spare import spare
from sundog.owner import fault_dumps
from sundog.store import places
from sundog.system.journal import write_to
from sundog.system.orphans import adopt
from sundog.wire.row import Table, on
from sundog.wire.zygote import Exited, Fork, Forked, ForkFailed, FromZygote, Import, Learn
from sundog.worker import numeric_threads, setup
from sundog.worker.later_imports import LaterImports, import_wanted
from sundog.worker.learner import Learner

if TYPE_CHECKING:
    from sundog.wire.dicts import WorkerCommon
    from sundog.worker.process import Parts

_SIGCHLD, _SIGINT, _DEFAULT = int(signal.SIGCHLD), int(signal.SIGINT), int(signal.SIG_DFL)
# Longer than a short script runs: it has all its workers, and the imports would take its tasks' processor time.
_QUIET_MS = 400
# Arbitrary: after a fork the zygote copies each page that it writes to, once for several forks in a row; but the node
# hears of the first only after the last.
_FORKS_IN_A_ROW = 4
# Arbitrary: a few workers that import by themselves take as long as one import in the zygote.
_FORKS_BEFORE_REST = 5
_LEARN_QUIET_MS = 300  # arbitrary: a fork request that arrives during the import has to wait
_QUIET_FIRST_MS = 150  # the node may ask late for the first workers, which must not wait for imports


def main(argv: list[str], wanted: tuple[list[str], list[str]] = ([], [])) -> None:
    """Run the zygote: arguments are its socket and the lifeline, and what to load at once."""
    sock, lifeline = socket.socket(fileno=int(argv[0])), int(argv[1])
    os.set_inheritable(lifeline, False)
    set_child_environ(untuned(user_environ()))  # only if the zygote was started as a program
    adopt()  # before the first worker: processes that user code starts there end with the session
    _preload_worker()
    later = import_wanted(*wanted)
    titles.begin("zygote")
    shm_root = _be_told(sock)
    path = _session_path(shm_root)
    if path:
        fault_dumps.listen(path)
    spare.hold()  # workers inherit it
    zygote = Zygote(Connection(sock, shm_root), lifeline, later)
    gc.freeze()
    gc.enable()  # off during the imports
    zygote.serve()
    _bury_session(shm_root, path)


class Zygote:
    """Serves requests of the node, reaps its children, and uses quiet moments."""

    def __init__(self, control: Connection, lifeline: int, later: LaterImports) -> None:
        self.control = control
        self.lifeline = lifeline
        self.later = later
        self.wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self.wake[1], warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.complete = False  # everything that later workers need has been loaded
        self.forks = 0
        self._packed = b""  # what the next worker has in common with the last, pickled and as it is
        self._common: WorkerCommon | None = None
        self._parts: Parts | None = None
        self.learner = Learner(self._tell, self._become_probe)
        self._asked: list[tuple[Fork, tuple[int, ...]]] = []  # requests that were read, in order
        self.table = Table(on(Fork, self._hear_fork), on(Import, self._load), on(Learn, self._learn))
        self.table.bereft = self._hear_fork

    def serve(self) -> None:
        """Serve until the node is gone."""
        poller = select.poll()
        poller.register(self.control.fileno(), select.POLLIN)
        poller.register(self.wake[0], select.POLLIN)
        # The lifeline hangs up when the node is gone, also if the socket leads to another process.
        poller.register(self.lifeline, 0)
        while True:
            ready = poller.poll(self._quiet_ms())
            if not ready:
                self._use_quiet()
            for fd, _ in ready:
                if fd == self.lifeline:
                    return
                if fd == self.wake[0]:
                    with contextlib.suppress(BlockingIOError):
                        os.read(fd, 4096)
                    self._reap()
                    continue
                if not self._read():
                    return

    def _read(self) -> bool:
        """Handle what the node has sent, several requests for a fork together; False if the node is gone."""
        most = _FORKS_IN_A_ROW if self.complete else 1  # a program waits for its first worker
        while len(self._asked) < most:
            try:
                received = self.control.receive()
            except BlockingIOError:
                break
            if received is None:
                return False
            message, fds = received
            self.table.handle(message, fds=fds)
        self._fork_asked()
        return True

    def _quiet_ms(self) -> int | None:
        if self.forks and self.later:
            return self.later.quiet_ms()
        if not self.complete:
            return _QUIET_MS if self.forks else _QUIET_FIRST_MS
        return _LEARN_QUIET_MS if self.learner.busy else None

    def _use_quiet(self) -> None:
        if self.forks and self.later:
            self.later.load_next()
        elif self.complete:
            self.learner.use_quiet()
        else:
            self.complete = True
            _preload_rest()

    def _tell(self, message: FromZygote) -> None:
        with contextlib.suppress(OSError):  # the node may be gone: the end of its socket is read next
            self.control.send(message)

    def _hear_fork(self, message: Fork, *fds: int) -> None:
        self._asked.append((message, fds))

    def _load(self, message: Import) -> None:
        self._fork_asked()  # those workers were asked for first, and do not wait for an import
        _load_now(message)

    def _learn(self, message: Learn) -> None:
        if not message.now:
            self.learner.ask(message)
            return
        self._fork_asked()
        if not self.learner.load_at_once(message):
            os._exit(1)  # the node starts another zygote

    def _fork_asked(self) -> None:
        """Fork the workers that were asked for, and tell the node."""
        if not self._asked:
            return
        told = [self._fork(at) for at in range(len(self._asked))]
        for _, fds in self._asked:
            for fd in fds:
                os.close(fd)
        self._asked.clear()
        for message in told:
            self._tell(message)

    def _fork(self, at: int) -> FromZygote:
        message, fds = self._asked[at]
        self.forks += 1
        if self.forks == _FORKS_BEFORE_REST and not self.complete:
            self.complete = True  # many workers are needed, so there may never be a quiet moment
            _preload_rest()
        self._prepare(message.common)
        try:
            if not fds:
                raise OSError("its socket was lost: the process had no free file descriptor")
            pid = os.fork()
        except OSError as error:
            return ForkFailed(message.worker, str(error))
        if pid == 0:
            self._become_worker(at)
        return Forked(message.worker, pid)

    def _prepare(self, packed: bytes) -> None:
        """Build what the next worker needs, unless what was built for the last one will do."""
        try:
            if packed != self._packed or self._common is None:
                self._common, self._packed = pickle.loads(packed), packed
            if self._parts is None or not self._parts.fit(self._common):
                self._parts = sys.modules["sundog.worker.process"].Parts(self._common)
                gc.freeze()
        except Exception:
            # The worker tries it again and tells why it fails; the zygote must be there for other jobs.
            self._common = self._parts = None

    def _reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait3(os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if not self.learner.reaped(pid, status):
                self._tell(Exited(pid, status, usage.ru_maxrss))

    # ------------------------------------------------------------------ in a forked process
    def _become_child(self) -> None:
        signal.set_wakeup_fd(-1)
        # The module's own function makes an enum of the old handler, which touches many pages that all workers share.
        _signal.signal(_SIGCHLD, _DEFAULT)
        _signal.signal(_SIGINT, _DEFAULT)
        self.control.close()
        for each in self.wake:
            os.close(each)

    def _become_worker(self, at: int) -> None:
        message, (fd, *_) = self._asked[at]
        for _, others in self._asked:
            for each in others:
                if each != fd:
                    os.close(each)  # of workers that were asked for together with this one
        self._become_child()
        process = sys.modules["sundog.worker.process"]
        common = self._common or pickle.loads(message.common)
        process.run(common, pickle.loads(message.spec), self._parts, fd, self.lifeline)
        os._exit(1)

    def _become_probe(self) -> None:
        self._become_child()
        setup.die_with_node(self.lifeline)


def _be_told(sock: socket.socket) -> str:
    """The session's shared-memory folder: the node's first message. From then on there is a log to write to."""
    shm_root = sock.recv(1 << 16).decode()
    if not shm_root:
        os._exit(0)  # no session exists: the node was not needed
    tag = places.base_of(shm_root)[1]
    with contextlib.suppress(OSError):
        write_to(f"{_session_path(shm_root)}/logs/zygote{'-' + tag if tag else ''}.log")
    return shm_root


def _session_path(shm_root: str) -> str:
    """The session's folder; read early, because a process that cleans up removes the link to it first."""
    try:
        return os.readlink(f"{shm_root}/.session")
    except OSError:
        return ""  # the process has ended already


def _bury_session(shm_root: str, path: str) -> NoReturn:
    """The node is gone: end every process below us, and remove what only the living need."""
    # The kernel kills the workers now. Their children become children of the zygote when the workers die, so
    # check until none is left.
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with contextlib.suppress(ChildProcessError):
        while True:
            for child in _children():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(child, signal.SIGKILL)
            os.waitpid(-1, 0)
    from sundog.store import folders

    folders.remove_shared(shm_root)
    tag = places.base_of(shm_root)[1]
    if tag:
        folders.remove_node_folder(f"{path}/spilled_objects", tag)  # the session continues without this node
    elif path:
        folders.withdraw(path)
        folders.remove_folders(path)
    os._exit(0)


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        return [int(each) for each in file.read().split()]


def _preload_worker() -> None:
    """What every worker needs; `init()` → first result waits for this."""
    import sundog.serialize.by_code
    import sundog.worker.process  # noqa: F401


def _preload_rest() -> None:
    """What later workers would otherwise import one by one: done when nobody waits for a fork.

    The first ones import the pickler themselves if they must: functions of a script need it, those of modules do not.
    """
    import inspect  # noqa: F401
    import traceback  # noqa: F401

    import cloudpickle  # noqa: F401

    import sundog.api
    import sundog.store.mapping  # noqa: F401

    Config()  # a row's constructor is compiled at its first use
    codecs.lookup("ascii")
    gc.collect()
    gc.freeze()


def _load_now(message: Import) -> None:
    _preload(message.packages)
    gc.collect()
    gc.freeze()


def _preload(packages: list[tuple[str, str]]) -> None:
    """What workers will need, each with the folder in which it is installed. Numeric packages are left to the workers
    if these could not set the number of their threads.
    """
    for name, folder in packages:
        if folder:
            also_find(name, folder)
        with numeric_threads.held() as is_held, contextlib.suppress(Exception):
            if is_held or name != numeric_threads.FIRST:
                __import__(name)


if __name__ == "__main__":
    main(sys.argv[1:])
