"""Asks the fault handler of a process that cannot run Python for its stacks, and reads what it wrote.

Owns the asking: whether a process may be sent the signal, one question at a time in a session, and the parsing of
`faulthandler`'s text. Refuses to send the signal where the program handles it itself, or where there is no handler, for
then the signal would end the process. Runs in the caller's process; `owner/fault_dumps.py` is the other side.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import time

from sundog.owner.fault_dumps import FILE, SIGNAL, is_caught, mark
from sundog.owner.stacks import PACKAGE_DIR
from sundog.plain import plain
from sundog.wire.looks import ProcessStacks, Stack, StackFrame

_LOOK_S = 0.02
_STEADY_LOOKS = 2
_LIMIT_S = 2.0
_STARVED_S = 30.0  # the limit for a process that gets no processor: it cannot answer before
_THREAD = re.compile(r"^(Current thread|Thread) (0x[0-9a-f]+)(?: \[(.*?)\])? \(most recent call first\):$")
_FRAME = re.compile(r'^  File "(.*)", line (\d+|\?\?\?) in (.*)$')
_RUNNERS = frozenset({"run", "_run_any", "_construct"})


@plain(frozen=True)
class Silence:
    """Why a process tells no stack."""

    why: str
    stopped: bool = False


def state_of(pid: int) -> str:
    """A process' state as the kernel has it: R, S, D, T, Z …; "" if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def ask(session_path: str, pid: int, process_id: str = "") -> ProcessStacks | Silence:
    """The stacks of a process, as its fault handler writes them.

    Args:
        session_path: The folder of its session.
        pid: Which process.
        process_id: Its id in the session: a worker with timeouts writes to a file of its own.
    """
    state = state_of(pid)
    if state in ("", "Z", "X"):
        return Silence("it has ended")
    if state in ("T", "t"):
        return Silence(f"it is stopped; to continue it: kill -CONT {pid}", stopped=True)
    path = f"{session_path}/{FILE}"
    if os.path.exists(mark(path, pid)):
        return Silence(f"it runs no Python now, and its program handles signal {int(SIGNAL)} itself")
    if not is_caught(f"/proc/{pid}/status"):
        return Silence("it runs no Python now, and its fault handler does not listen")
    own = f"{session_path}/logs/worker-{process_id}.stack"
    try:
        text = written(own if process_id and os.path.exists(own) else path, pid)
    except OSError as error:
        return Silence(f"it runs no Python now, and its stacks cannot be read: {error.strerror}")
    if not text:
        told = "is in a system call that cannot be interrupted" if state == "D" else "blocks signals"
        return Silence(f"it runs no Python now, and {told}")
    return ProcessStacks(tuple(parse(text)))


def written(path: str, pid: int) -> str:
    """What a process appends to a file when it gets the signal."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)  # one question at a time
        start = size = os.fstat(fd).st_size
        blocked = _blocked(pid)
        with contextlib.suppress(ProcessLookupError):
            _send(pid)
        patience, steady = Patience(pid), 0
        while patience.lasts() and (steady < _STEADY_LOOKS or size == start):
            time.sleep(_LOOK_S)
            now = os.fstat(fd).st_size
            # The handler writes a dump in many pieces. On a busy machine the kernel may interrupt it between
            # two of them.
            is_whole = now == size and not _blocked(pid) - blocked
            steady = steady + 1 if is_whole else 0
            size = now
        text = os.pread(fd, size - start, start).decode("utf-8", "backslashreplace")
        if path.endswith(FILE):
            os.ftruncate(fd, 0)  # writers append: the next dump begins at the start again
        return text
    finally:
        os.close(fd)


class Patience:
    """How long an answer is awaited. Time in which the process waits for a processor does not count: it is late by no
    fault of its own.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._looked_s = self._began_s = time.monotonic()
        self._left_s = _LIMIT_S
        self._ran = processor_time(pid)

    def lasts(self) -> bool:
        """Whether to look once more."""
        now, ran = time.monotonic(), processor_time(self._pid)
        if ran != self._ran or state_of(self._pid) != "R":
            self._left_s -= now - self._looked_s
        self._looked_s, self._ran = now, ran
        return self._left_s > 0 and now - self._began_s < _STARVED_S


def processor_time(pid: int) -> int:
    """The nanoseconds for which the main thread of a process has had a processor; 0 if they are not known."""
    try:
        with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
            return int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return 0


def _blocked(pid: int) -> set[str]:
    """The threads of a process that do not take the signal now: the one whose handler runs is among them."""
    found = set()
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/status", "rb") as file:
                masks = [int(line.split()[1], 16) for line in file if line.startswith(b"SigBlk:")]
                if any(mask >> (SIGNAL - 1) & 1 for mask in masks):
                    found.add(thread)
    return found


def _send(pid: int) -> None:
    handle = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(handle, SIGNAL)
    finally:
        os.close(handle)


def parse(text: str) -> list[Stack]:
    """Threads of a dump, the main thread first, then the user's, then sundog's own."""
    found: list[Stack] = []
    name = ""
    frames: list[StackFrame] = []
    for line in [*text.splitlines(), "Thread 0x0 (most recent call first):"]:
        if (thread := _THREAD.match(line)) is not None:
            if name or frames:
                found.append(_thread(name, frames))
            name, frames = thread[3] or f"thread {thread[2]}", []
        elif (frame := _FRAME.match(line)) is not None:
            number = int(frame[2]) if frame[2].isdigit() else 0
            frames.append(StackFrame(frame[3], frame[1], number, frame[1].startswith(PACKAGE_DIR)))
    return sorted(found, key=lambda each: (each.ours, each.name != "MainThread"))


def _thread(name: str, frames: list[StackFrame]) -> Stack:
    began = [frame for frame in frames if not frame.file.endswith(f"{os.sep}threading.py")]
    in_thread = len(began) < len(frames) and bool(frames) and frames[-1].function == "_bootstrap"
    if not in_thread:
        name = "MainThread"
    ours = in_thread and bool(began) and began[-1].ours and all(frame.ours for frame in began)
    for number, frame in enumerate(frames):
        if frame.ours and frame.function in _RUNNERS and any(not each.ours for each in frames[:number]):
            frames = frames[: number + 1]  # the remaining frames only start the worker
            break
    return Stack(name, tuple(frames), ours=ours)
