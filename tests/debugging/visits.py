"""Desks and clients in one process, for tests."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from sundog.debugging import channel
from sundog.debugging.desk import DebugDesk
from sundog.wire.pauses import Pause

PAUSE = Pause("1", "ab", "f", 0, "/f.py", 3, "f", "breakpoint()", 0.0, 7, "cd")


class Told:
    """What the node was told."""

    def __init__(self) -> None:
        self.pauses: list[Pause] = []
        self.ended: list[str] = []

    def desk(self, folder: Path) -> DebugDesk:
        """A desk that tells us."""
        return DebugDesk(str(folder), PAUSE, self.pauses.append, self.ended.append)


class Client:
    """Types lines at a desk, one for each prompt, and keeps what was shown; vanishes after the last one."""

    def __init__(self, folder: Path, *lines: str) -> None:
        self.shown = ""
        self._lines = lines
        self._channel = channel.connect(str(folder), "1")
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        left = list(self._lines)
        while (message := self._channel.receive()) is not None:
            self.shown += str(message.get("text", "")) + str(message.get("prompt", ""))
            if message["kind"] == "end":
                break
            if message["kind"] != "ask":
                continue
            if not left:
                break
            self._channel.send("line", text=left.pop(0))
        self._channel.close()

    def done(self) -> str:
        """Wait for its end; what was shown."""
        self._thread.join(120)
        assert not self._thread.is_alive()
        return self.shown


def elsewhere(call: Callable[[], object]) -> threading.Thread:
    """Run something in a thread."""
    thread = threading.Thread(target=call)
    thread.start()
    return thread
