"""What the node did to a submitted job for its memory limit, as a file that the job's supervisor reads at its end.

Owns the file `memory.json` in the job's folder, and the sentence made of it. Written by the node, read by the
supervisor; both are of the same user (`trust`).
"""

from __future__ import annotations

import contextlib
import json
import os

from sundog import trust
from sundog.plain import as_dict, plain

_FILE = "memory.json"


@plain(frozen=True)
class Verdict:
    """How often workers of the job were ended for its limit, and whether its own program was."""

    limit_bytes: int
    workers_ended: int = 0
    program_ended: bool = False
    used_bytes: int = 0
    largest: str = ""
    """The largest user of the job's memory at the last end, in words."""

    def text(self) -> str:
        """One sentence.

        >>> Verdict(200_000_000, 2, False, 260_000_000).text()
        '2 of its workers were ended because the job used 260 MB, more than its limit of 200 MB (--memory).'
        """
        count = self.workers_ended
        who = (
            "It was ended"
            if self.program_ended
            else "1 of its workers was ended"
            if count == 1
            else f"{count} of its workers were ended"
        )
        largest = f"; the largest user was {self.largest}" if self.largest else ""
        return (
            f"{who} because the job used {self.used_bytes / 1e6:,.0f} MB, more than its limit of "
            f"{self.limit_bytes / 1e6:,.0f} MB (--memory){largest}."
        )


def write(job_folder: str, verdict: Verdict) -> None:
    """Note what was done; nothing if the job has no folder: it was not submitted."""
    temporary = f"{job_folder}/{_FILE}.{os.getpid()}.new"  # node and supervisor may both write
    with contextlib.suppress(OSError):
        with open(trust.create_file(temporary), "w", encoding="utf-8") as file:
            json.dump(as_dict(verdict), file)
        os.replace(temporary, f"{job_folder}/{_FILE}")


def read(job_folder: str) -> Verdict | None:
    """What was noted; None if nothing was."""
    try:
        return Verdict(**json.loads(trust.read_file(f"{job_folder}/{_FILE}")))
    except (OSError, TypeError, ValueError):
        return None
