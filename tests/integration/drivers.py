"""Driver programs in processes of their own, for tests that kill, outlive or share them.

Owns the subprocess and its lines; a program talks to its test by printing lines and reading lines. Whatever a
test leaves running is killed by `running`, the leak check then judges what the session left.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

import sundog
from tests import leaks
from tests.integration.gates import TIMEOUT_S
from tests.integration.gates import await_true as await_true

VANISH_S = 2.0
STARVED_S = 60.0  # however short of processor time a session is, it is given no longer than this
SOURCE = str(Path(sundog.__file__).parents[1])


class Driver:
    """A program that says `import sundog as ray`, with its output as a queue of lines."""

    def __init__(self, program: str, *arguments: str, **environ: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-c", "import sundog as ray\n" + textwrap.dedent(program), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": SOURCE, **environ},
        )
        self.pid = self.process.pid
        self.errors: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._threads = [
            threading.Thread(target=self._read_out, daemon=True),
            threading.Thread(target=self._read_err, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _read_out(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def _read_err(self) -> None:
        assert self.process.stderr is not None
        self.errors.extend(self.process.stderr)

    def line(self) -> str:
        """The next line that the program printed."""
        try:
            found = self._lines.get(timeout=TIMEOUT_S)
        except queue.Empty:
            raise AssertionError(f"the driver printed nothing; its errors: {''.join(self.errors)}") from None
        if found is None:
            self._threads[1].join(TIMEOUT_S)
            raise AssertionError(f"the driver ended; its errors: {''.join(self.errors)}")
        return found

    def numbers(self) -> list[int]:
        """The next line as numbers: process ids, mostly."""
        return [int(word) for word in self.line().split()]

    def rest(self) -> list[str]:
        """Wait for the end; all lines that are left."""
        self.process.wait(TIMEOUT_S)
        lines: list[str] = []
        while (line := self._lines.get(timeout=TIMEOUT_S)) is not None:
            lines.append(line)
        return lines

    def go_on(self) -> None:
        """Let a program continue that waits in `input()`."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it may have ended by itself
            self.process.stdin.write("\n")
            self.process.stdin.flush()

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal, and wait for the end."""
        self.process.send_signal(number)
        self.process.wait(TIMEOUT_S)

    def end(self) -> int:
        """Wait for the end; returns the exit status."""
        return self.process.wait(TIMEOUT_S)

    def close(self) -> None:
        """Kill what is left and collect the pipes."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(TIMEOUT_S)
        for thread in self._threads:
            thread.join(TIMEOUT_S)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


@contextlib.contextmanager
def running(program: str, *arguments: str, **environ: str) -> Iterator[Driver]:
    """A driver for the length of a with-block."""
    driver = Driver(program, *arguments, **environ)
    try:
        yield driver
    finally:
        driver.close()


def run(program: str, **environ: str) -> list[str]:
    """Run a program to its end; its lines. It must succeed."""
    with running(program, **environ) as driver:
        lines = driver.rest()
        driver.close()
        code = driver.process.returncode
        assert code == 0, f"the program ended with {code}\n{''.join(driver.errors)}"
        return lines


def join(*programs: str) -> str:
    """Pieces of a program, each indented as suits its place, as one."""
    return "\n".join(textwrap.dedent(program) for program in programs)


def node_pid(driver: int) -> int:
    """The node of the session that a driver started: its only child of that kind.

    `init()` does not wait for the node's program, whose command line is empty until the kernel has laid it out.
    """
    found: list[int] = []

    def find() -> bool:
        for child in psutil.Process(driver).children():
            words = " ".join(child.cmdline())
            if "sundog.node" in words or "sundog::node" in words:  # its title comes a moment later
                found.append(child.pid)
        return bool(found)

    await_true(find, f"the node of process {driver}")
    return found[0]


def zygote_pid(driver: int) -> int:
    """The zygote of the session that a driver started."""
    node = psutil.Process(node_pid(driver))
    await_true(node.children, f"the zygote of process {driver}")
    children = node.children()
    # The first, unless it died and was replaced: then the one that says so.
    named = [child for child in children if is_zygote(" ".join(child.cmdline()))]
    return (named or sorted(children, key=psutil.Process.create_time))[0].pid


def is_zygote(command: str) -> bool:
    """Whether a command line is that of a zygote: as it was started, or by its title."""
    return "worker.zygote" in command or "sundog::zygote" in command


def mentions(pid: int, folder: str) -> bool:
    """Whether a live process names a folder in its command line, environment, mappings or open files."""
    return leaks._mentions(pid, [folder.encode()])


def left_of(folder: str, ours: frozenset[int] | set[int] = frozenset()) -> list[str]:
    """What is left of a session that should be gone: processes that name it, its shared memory, its socket.

    Args:
        folder: the session's folder, or the one that sessions are made in.
        ours: processes that may live on.
    """
    found = [
        f"process {pid}: {_words(pid)}"
        for pid in psutil.pids()
        if pid != os.getpid() and pid not in ours and mentions(pid, folder)
    ]
    for shared in Path("/dev/shm").glob("sundog-*"):
        with contextlib.suppress(OSError):
            if os.readlink(shared / ".session").startswith(folder):
                found.append(f"shared memory {shared}")
    found += [f"socket {each}" for each in Path(folder).rglob("*") if each.is_socket()]
    return found


def _words(pid: int) -> str:
    try:
        return " ".join(psutil.Process(pid).cmdline())[:120]
    except psutil.Error:
        return "ended meanwhile"


class Vanishing:
    """A clock that starts when it is made, for what has to be gone `VANISH_S` later.

    A loaded machine is no excuse for us, but no fault of ours either: while a process of the session is ready to run
    and others have the processors, the kernel counts that (`/proc/<pid>/schedstat`), and so much longer we wait.
    """

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._first: dict[int, int] = {}
        self._last: dict[int, int] = {}
        self._see(os.getpid())

    def elapsed_s(self) -> float:
        """Time since the start."""
        return time.monotonic() - self._started

    def starved_s(self) -> float:
        """Time that whoever had to end, and we who watch, spent waiting for a processor."""
        return sum(self._last[pid] - first for pid, first in self._first.items()) / 1e9

    def _see(self, pid: int) -> None:
        with contextlib.suppress(OSError, IndexError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                waited = int(Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[1])
                self._first.setdefault(int(thread), waited)
                self._last[int(thread)] = waited

    def wait(self, left: Callable[[], list[str]]) -> None:
        """Wait until nothing is left.

        Raises:
            AssertionError: something is, after `VANISH_S` in which it could have run.
        """
        while found := left():
            for pid in {
                os.getpid(),
                *(int(each.split()[1].rstrip(":")) for each in found if "process" in each),
            }:
                self._see(pid)
            if self.elapsed_s() > VANISH_S + min(self.starved_s(), STARVED_S):
                raise AssertionError(
                    f"left after {self.elapsed_s():.1f} s, {self.starved_s():.1f} s of it without a processor: {found}"
                )
            time.sleep(0.005)
        self._see(os.getpid())  # the last look, which found nothing, may have waited longest


def await_nothing_left(session_dir: str, since: Vanishing | None = None) -> None:
    """A session vanishes within the promised 2 s, counted from the making of `since`, or from now."""
    (since or Vanishing()).wait(lambda: left_of(session_dir))
