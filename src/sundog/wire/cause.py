"""Why a process ended: one cause, with its evidence. A value that the node makes and everyone may show."""

from __future__ import annotations

import signal as signals
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MEMORY = "memory"  # the kind of an end that the node brought about because memory ran short


@dataclass(frozen=True, slots=True)
class Cause:
    """The end of a process as the kernel and the node know it.

    Args:
        reason: why the node ended it ("killed", "cancelled", "idle", …); empty if the node did not.
        exit_code: what it exited with; None if a signal ended it.
        signal: the signal that ended it; None if it exited.
        detail: evidence: the last lines of its error output, what it had been asked.
        intended: whether the user or the system wanted this end.
        kind: MEMORY, or empty.
        facts: what an error may carry as attributes beyond these (memory figures).
    """

    reason: str = ""
    exit_code: int | None = None
    signal: int | None = None
    detail: str = ""
    intended: bool = False
    kind: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        """One sentence (or a few lines) for people."""
        if self.reason:
            words = f"it was ended: {self.reason}."
        elif self.signal is not None:
            try:
                name = signals.Signals(self.signal).name
            except ValueError:
                name = f"signal {self.signal}"
            words = f"it was ended by {name}, which sundog did not send."
        elif self.exit_code is not None:
            words = f"its process exited with code {self.exit_code}."
        else:
            words = "its process is gone."
        return f"{words}\n{self.detail}" if self.detail else words
