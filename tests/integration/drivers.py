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

TIMEOUT_S = 30.0
VANISH_S = 8.0
SOURCE = str(Path(sundog.__file__).parents[1])


class Driver:
    """A program that says `import sundog as ray`, with its output as a queue of lines."""

    def __init__(self, program: str, **environ: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-c", "import sundog as ray\n" + textwrap.dedent(program)],
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
def running(program: str, **environ: str) -> Iterator[Driver]:
    """A driver for the length of a with-block."""
    driver = Driver(program, **environ)
    try:
        yield driver
    finally:
        driver.close()


def run(program: str, **environ: str) -> list[str]:
    """Run a program to its end; its lines. It must succeed."""
    with running(program, **environ) as driver:
        lines = driver.rest()
        driver.close()
        assert driver.process.returncode == 0, "".join(driver.errors)
        return lines


def join(*programs: str) -> str:
    """Pieces of a program, each indented as suits its place, as one."""
    return "\n".join(textwrap.dedent(program) for program in programs)


def node_pid(driver: int) -> int:
    """The node of the session that a driver started: its only child of that kind."""
    for child in psutil.Process(driver).children():
        if any("sundog.node" in word for word in child.cmdline()):
            return child.pid
    raise AssertionError(f"process {driver} has no node")


def zygote_pid(driver: int) -> int:
    """The zygote of the session that a driver started."""
    children = psutil.Process(node_pid(driver)).children()
    assert children, f"the node of process {driver} has no zygote"
    # The first, unless it died and was replaced: then the one that says so.
    named = [child for child in children if "worker.zygote" in " ".join(child.cmdline())]
    return (named or sorted(children, key=psutil.Process.create_time))[0].pid


def await_true(question: Callable[[], object], what: str, timeout_s: float = TIMEOUT_S) -> None:
    """Poll another process' state, which sends no event."""
    deadline = time.monotonic() + timeout_s
    while not question():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {timeout_s} s")
        time.sleep(0.005)


def left_of(session_dir: str) -> list[str]:
    """What is left of a session that should be gone: processes that name it, its shared memory, its socket."""
    found = [
        f"process {pid}: {_words(pid)}"
        for pid in psutil.pids()
        if pid != os.getpid() and leaks._mentions(pid, [session_dir.encode()])
    ]
    for folder in Path("/dev/shm").glob("sundog-*"):
        with contextlib.suppress(OSError):
            if os.readlink(folder / ".session") == session_dir:
                found.append(f"shared memory {folder}")
    found += [f"socket {each}" for each in Path(session_dir).rglob("*") if each.is_socket()]
    return found


def _words(pid: int) -> str:
    try:
        return " ".join(psutil.Process(pid).cmdline())[:120]
    except psutil.Error:
        return "ended meanwhile"


def await_nothing_left(session_dir: str, within_s: float = VANISH_S) -> None:
    """A session vanishes within the promised 2 s (more is granted here: the machine may be loaded)."""
    deadline = time.monotonic() + within_s
    while found := left_of(session_dir):
        if time.monotonic() > deadline:
            raise AssertionError(f"left of {session_dir}: {found}")
        time.sleep(0.05)
