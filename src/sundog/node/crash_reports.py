"""The report that a crashing worker writes to its log, in the driver's terminal: one line instead of its stacks.

Owns the grammar of what Python's fault handler writes. The error of the task has the stack of the thread that crashed
already, and the log has all of it; printing it a third time, with our own frames, would hide both. Refuses to hold
lines back: what is no part of a report ends it. Pure; runs in the node.
"""

from __future__ import annotations

from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

_BEGIN = "Fatal Python error: "
_PART = r"""$|(Current[ ])?[Tt]hread[ ]0x[0-9a-f]+[ ].*:$|<.*>$|Stack[ ]\(most[ ]recent
        |[ ]{2}(File[ ]"|\.\.\.|<|Garbage)|Extension[ ]modules:|Python[ ]runtime[ ]state:
        |Current[ ]thread's[ ]C[ ]stack|[ ]{2}Binary[ ]file[ ]"""


@lru_cache(maxsize=1)
def _part() -> re.Pattern[str]:
    # Imported here: few sessions see a crash, and compiling the pattern would slow every start.
    import re

    return re.compile(_PART, re.VERBOSE)


class CrashReports:
    """Folds the reports in the lines of one log.

    Args:
        path: the log, to be named.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._inside = False

    def fold(self, lines: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """The same lines of (name, text), each report as one."""
        if not self._inside and not any(text.startswith(_BEGIN) for _, text in lines):
            return lines
        out = []
        for name, text in lines:
            if text.startswith(_BEGIN):
                self._inside = True
                out.append(
                    (name, f"{text} (its stack is in the error of the task; all stacks: {self._path})")
                )
            elif not self._inside or not _part().match(text):
                self._inside = False
                out.append((name, text))
        return out
