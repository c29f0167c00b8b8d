"""Why a process ended: one cause, with its evidence. A value that the node makes and every program may show.

Owns the words in which an end is told, wherever it is told: the node's log, a task's error, an actor's. Refuses
guesses: what the kernel, the node and the dead process' own recorder do not know is not said. Pure; pickled
from the node to every process that dealt with the dead one.
"""

from __future__ import annotations

import signal as signals

from sundog.plain import JsonMapping, field, plain

# What ended the process. Owners choose the class of their error by it.
ENDED = "ended"  # the node ended it, for `reason`
EXIT = "exit"  # the process exited by itself
SIGNAL = "signal"  # a signal of another program, or of the process itself
KERNEL_OOM = "kernel_oom"  # the kernel's out-of-memory killer
NODE = "node"  # the node that it ran on is gone
MEMORY = "memory"  # the node ended it, because memory ran short


@plain(frozen=True)
class Cause:
    """The end of a process as the kernel and the node know it.

    Args:
        reason: why the node ended it ("killed", "cancelled", "idle", …); empty if the node did not.
        exit_code: what it exited with; None if a signal ended it.
        signal: the signal that ended it; None if it exited.
        detail: evidence: a fault handler's stack, the last lines of its error output.
        intended: whether the user or the system wanted this end.
        kind: one of the words above; empty if nothing is known but that it is gone.
        last_line: where the user's code was seen last ("file.py:12 in resize"), and how long before the end.
        last_task: the task (hex) it had begun last; empty if none, or if nothing was recorded.
        facts: what an error may carry as attributes beyond these (memory figures, counters).
    """

    reason: str = ""
    exit_code: int | None = None
    signal: int | None = None
    detail: str = ""
    intended: bool = False
    kind: str = ""
    last_line: str = ""
    last_task: str = ""
    facts: JsonMapping = field(default_factory=dict)

    def text(self) -> str:
        """A sentence, or a few lines where there is evidence to show."""
        lines = [self._what()]
        if self.last_line:
            lines.append(f"Its code was last seen at {self.last_line}.")
        if self.detail:
            lines.append(self.detail)
        return "\n".join(lines)

    def _what(self) -> str:
        if self.kind == NODE:
            return f"{self.reason}, and its process with it."
        if self.reason:
            return f"it was ended because {self.reason}."
        if self.kind == KERNEL_OOM:
            return self._out_of_memory()
        if self.signal is not None:
            # A fault is caused by the process itself; any other signal came from outside, and not from
            # sundog.
            if self.signal in FAULTS:
                return f"it crashed with {signal_name(self.signal)}."
            return f"it was ended by {signal_name(self.signal)}, which sundog did not send.{self._hint()}"
        if self.exit_code is not None:
            return f"its process exited by itself with code {self.exit_code}."
        return "its process is gone."

    def _hint(self) -> str:
        counter, before, after = (
            self.facts.get(f"machine_{name}") for name in ("counter", "before", "after")
        )
        if counter is None:
            return ""
        return (
            f" At that time the kernel killed a process of this machine for memory (the count in {counter} went from "
            f"{before} to {after}). It may have been this one, in a control group of its own. See: dmesg."
        )

    def _out_of_memory(self) -> str:
        counter, before, after = (self.facts.get(name) for name in ("counter", "before", "after"))
        peak = self.facts.get("peak_bytes")
        size = f" Its peak was {shown_bytes(peak)}." if peak else ""
        limit = self.facts.get("limit_bytes")
        within = f" within a limit of {shown_bytes(limit)}" if limit else ""
        return (
            f"the kernel killed it because memory ran out{within}: the count of such kills in {counter} went "
            f"from {before} to {after} as it died of SIGKILL.{size}"
        )


# Signals that the kernel sends because of what the process itself did.
FAULTS = frozenset((signals.SIGSEGV, signals.SIGABRT, signals.SIGBUS, signals.SIGFPE, signals.SIGILL))


def signal_name(number: int) -> str:
    """The name of a signal; of one without a name its number.

    >>> signal_name(11)
    'SIGSEGV'
    """
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"


def shown_bytes(size: int) -> str:
    """A size for people.

    >>> shown_bytes(1_500_000_000)
    '1.5 GB'
    """
    amount = float(size)
    for unit in ("bytes", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"
