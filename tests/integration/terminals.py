"""Terminals with commands of sundog in them, driven as a person would.

pexpect's own `spawn` forks this process and runs Python in the child. With threads beside it, as in a process of
pytest-xdist, the child may wait for ever for a lock that another thread held. Here a program is started by
`subprocess`, which runs no Python between fork and exec.
"""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pexpect
from pexpect import fdpexpect

TIMEOUT_S = 120
PROMPT = r"\(Pdb\) "
# The leader of a new session takes its standard input for its terminal, so that Ctrl-C reaches it; then the command.
_LEAD = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"


class Screen(fdpexpect.fdspawn):  # type: ignore[type-arg]
    """A program in a terminal of its own, with what tests use of `pexpect.spawn`."""

    def __init__(
        self,
        command: list[str],
        dimensions: tuple[int, int] = (24, 80),
        environ: Mapping[str, str] | None = None,
    ) -> None:
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, dimensions)
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _LEAD, *command],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            env=environ,
        )
        os.close(theirs)
        super().__init__(ours, timeout=TIMEOUT_S, encoding="utf-8")

    def wait(self) -> int:
        """Wait until the program has ended; returns its exit status."""
        self.exitstatus = self.process.wait(TIMEOUT_S)
        return self.exitstatus

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send the program a signal."""
        self.process.send_signal(number)

    def close(self, force: bool = True) -> None:
        """Close the terminal, and end the program if it runs still."""
        super().close()
        self.process.kill()
        self.process.wait()


class Terminal:
    """A command of sundog in a terminal of its own."""

    def __init__(self, *args: str) -> None:
        environ: dict[str, str] = {**os.environ, "TERM": "dumb", "COLUMNS": "200"}
        self.child: Any = Screen([sys.executable, "-m", "sundog.cli", *args], environ=environ)

    def see(self, pattern: str) -> str:
        """Wait until this is on the screen; returns all that came before."""
        self.child.expect(pattern)
        return str(self.child.before)

    def type(self, text: str) -> None:
        """Type a line."""
        self.child.sendline(text)

    def say(self, text: str) -> str:
        """Type a line at pdb's prompt; returns what it answers, up to the next prompt."""
        self.type(text)
        return self.see(PROMPT)

    def end(self) -> str:
        """Wait until the command has ended; returns the last of what it showed."""
        return self.see(pexpect.EOF)  # type: ignore[arg-type]


@contextmanager
def terminal(*args: str) -> Iterator[Terminal]:
    """A terminal that is closed in the end."""
    opened = Terminal(*args)
    try:
        yield opened
    finally:
        opened.child.close(force=True)
