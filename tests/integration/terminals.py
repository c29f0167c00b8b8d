"""Terminals with `sundog debug` or `sundog replay` in them, driven as a person would."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pexpect

TIMEOUT_S = 120
PROMPT = r"\(Pdb\) "


class Terminal:
    """A command of sundog in a terminal of its own."""

    def __init__(self, *args: str) -> None:
        environ: dict[str, str] = {**os.environ, "TERM": "dumb", "COLUMNS": "200"}
        self.child = pexpect.spawn(
            sys.executable, ["-m", "sundog.cli", *args], encoding="utf-8", timeout=TIMEOUT_S, env=environ
        )

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
