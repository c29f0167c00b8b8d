"""The log of a program of ours that has no terminal: a text stream that never raises.

Owns where the output of the node and of the zygote goes. A line that cannot be written (the disk is full, the folder
is gone) is dropped and counted; the next line that can be written says how many are missing. Nothing here waits. Runs
in the node and the zygote, any thread.
"""

from __future__ import annotations

import io
import os
import sys
import time

_OPEN_AGAIN_S = 1.0


def write_to(log: str) -> None:
    """Have this process' output and errors appended to a file, as far as it takes them."""
    journal = Journal(log, (1, 2))
    sys.stdout = sys.stderr = journal


class Journal(io.TextIOBase):
    """Appends whole lines to a file.

    Args:
        path: the file.
        targets: descriptors that are to lead to the file too, for what does not write through this stream.
    """

    def __init__(self, path: str, targets: tuple[int, ...]) -> None:
        self.path = path
        self.lost_lines = 0
        self._targets = targets
        self._held = ""
        self._torn = False  # the file ends within a line
        self._open_at = 0.0
        self._fd = -1
        if not self._open():
            self._point("/dev/null", os.O_WRONLY)

    def _open(self) -> bool:
        self._open_at = time.monotonic() + _OPEN_AGAIN_S
        try:
            self._point(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        except OSError:
            return False
        self._fd = self._targets[0]
        return True

    def _point(self, path: str, flags: int) -> None:
        fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
        try:
            for target in self._targets:
                os.dup2(fd, target)
        finally:
            if fd not in self._targets:
                os.close(fd)

    def write(self, text: str, /) -> int:
        """Take text; whole lines go to the file."""
        self._held += text
        end = self._held.rfind("\n") + 1
        if end:
            lines, self._held = self._held[:end], self._held[end:]
            self._append(lines)
        return len(text)

    def flush(self) -> None:
        """Write what has no newline yet."""
        if self._held:
            held, self._held = self._held, ""
            self._append(held)

    def _append(self, text: str) -> None:
        if self._fd < 0 and (time.monotonic() < self._open_at or not self._open()):
            self.lost_lines += text.count("\n")
            return
        note = "\n" if self._torn else ""
        if self.lost_lines:
            note += f"[{self.lost_lines} lines are missing here: they could not be written (disk full?)]\n"
        begin = note.encode()
        data = begin + text.encode("utf-8", "backslashreplace")
        try:
            written = os.write(self._fd, data)
        except OSError:
            written = 0
        if written >= len(begin):
            self.lost_lines = data[written:].count(b"\n")
            self._torn = written > 0 and data[written - 1 : written] != b"\n"
        else:
            self.lost_lines += text.count("\n")
            self._torn = self._torn or written > 0

    def writable(self) -> bool:
        """Always: what cannot be written is counted."""
        return True

    def fileno(self) -> int:
        """The first descriptor that leads to the file."""
        return self._targets[0]
