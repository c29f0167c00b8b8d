"""Samples with the frames of C code, by py-spy: one py-spy process beside each process that is looked at.

Owns that process and the reading of its file. py-spy stops the process for each look, so this costs more than our own
sampler; its processor time is reported as the cost of the looks. py-spy is an extra (`pip install
'sundog[profile]'`). Where the kernel forbids it to look (ptrace), the user is told, and there is no profile of that
process. Runs in any process; started and stopped by any thread.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from sundog.profiling.memory import NoMemray
from sundog.profiling.rows import ProfileFrame, Samples, Stack

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_WORKER = f"{_PACKAGE}worker{os.sep}"
_CLI = f"{_PACKAGE}cli{os.sep}"
_PROFILERS = f"{_PACKAGE}profiling{os.sep}"
_PLACE = re.compile(r"^(?P<name>.*) \((?P<path>[^()]*?)(?::(?P<line>\d+))?\)$")
_UNPICKLING = f"{os.sep}cloudpickle{os.sep}"
_END_S = 20.0
_PR_SET_PTRACER = 0x59616D61


def find_spy() -> str | None:
    """Where py-spy is; None if it is not installed."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy")


class NativeSampler:
    """py-spy at work on this process, from `start` to `stop`."""

    def __init__(self, kind: str, rate_hz: float, role: str, file: str, limit_s: float) -> None:
        self.kind = kind
        self._rate_hz, self._role, self._file, self._limit_s = rate_hz, role, file, limit_s
        self._spy: subprocess.Popen[bytes] | None = None
        self._begun_s = time.perf_counter()
        self._used_s = 0.0

    def start(self) -> None:
        """Begin.

        Raises:
            NotThere: py-spy is not installed.
        """
        program = find_spy()
        if program is None:
            raise NoMemray("native frames need py-spy. Install it with: pip install 'sundog[profile]'")
        idle = ["--idle"] if self.kind == "wall" else []
        self._spy = subprocess.Popen(
            [
                program, "record", "--native", "--full-filenames", "--format", "raw", "--output", self._file,
                "--rate", str(max(1, round(self._rate_hz))), "--duration", str(int(self._limit_s) + 1),
                "--pid", str(os.getpid()), *idle,
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        _let_look(self._spy.pid)

    def stop(self) -> None:
        """End, and wait until the file is written.

        Raises:
            NotThere: py-spy could not look; the text says why.
        """
        spy = self._spy
        if spy is None:
            return
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with contextlib.suppress(ProcessLookupError):
            spy.send_signal(signal.SIGINT)
        try:
            _, errors = spy.communicate(timeout=_END_S)
        except subprocess.TimeoutExpired:
            spy.kill()
            _, errors = spy.communicate()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self._used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        if not os.path.exists(self._file):
            said = errors.decode(errors="replace").strip().splitlines()
            raise NoMemray(
                f"py-spy could not read the process: {said[0] if said else f'exit code {spy.returncode}'}"
            )

    def result(self) -> Samples:
        """What was found."""
        elapsed = time.perf_counter() - self._begun_s
        text = Path(self._file).read_text(encoding="utf-8", errors="replace")
        return read(text, self.kind, 1.0 / self._rate_hz, self._role)._replace(
            look_s=self._used_s, elapsed_s=elapsed
        )


def _let_look(pid: int) -> None:
    """Where a process may be traced by its parents only (Yama), allow this child."""
    with contextlib.suppress(Exception):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(pid), 0, 0, 0)


def read(text: str, kind: str, step_s: float, role: str) -> Samples:
    """The rows of py-spy's raw format: `outermost;…;innermost COUNT` on each line."""
    stacks: dict[tuple[str, Stack], tuple[float, int]] = {}
    looks = 0
    for row in text.splitlines():
        frames, _, count = row.rpartition(" ")
        if not count.isdigit():
            continue
        looks += int(count)
        found = _users(tuple(_frame(each) for each in frames.split(";")), role)
        if found is not None:
            before = stacks.get(found, (0.0, 0))
            stacks[found] = (before[0] + int(count) * step_s, before[1] + int(count))
    return Samples(kind, looks, 0.0, 0.0, stacks)


def _frame(text: str) -> ProfileFrame:
    found = _PLACE.match(text)
    if found is None:
        return ProfileFrame(text, "", 0)
    return ProfileFrame(found["name"], found["path"], int(found["line"] or 0))


def _is_python(frame: ProfileFrame) -> bool:
    return frame.path.endswith(".py") or (frame.path.startswith("<") and frame.line > 0)


def _users(stack: Stack, role: str) -> tuple[str, Stack] | None:
    """The frames of the user's and of the C code below them, with the name of the remote function."""
    last = max((n for n, frame in enumerate(stack) if frame.path.startswith(_WORKER)), default=-1)
    if last < 0 and role != "driver":
        return None
    if last < 0:
        last = max((n for n, frame in enumerate(stack) if frame.path.startswith(_CLI)), default=-1)
    own = list(stack[last + 1 :])
    while own and (not _is_python(own[0]) or own[0].path.startswith((_PROFILERS, threading.__file__))):
        del own[0]  # how Python, or a thread, was entered
    if not own or own[0].path.startswith((_PACKAGE, "<frozen ")) or _UNPICKLING in own[0].path:
        return None  # sundog itself, or an import for it
    label = "driver" if role == "driver" else own[0].name.rpartition("<locals>.")[2]
    for number, frame in enumerate(own):
        if frame.path.startswith(_PACKAGE):
            return label, tuple(own[: number + 1])
    return label, tuple(own)
