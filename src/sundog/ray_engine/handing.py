"""Hands the records of a submitted job over: a small job on the head node prints them, the client reads its output.

::

    sundog job records ID ── submits ──► python -m sundog.ray_engine.handing ID ── base64, line by line ──► FILE

Owns the form of that output, and how a job's session is found: by the submission id in its `session.json`. Runs on
the node where the job's driver was; `taken` runs in the client.
"""

from __future__ import annotations

import base64
import json
import sys
import tempfile

from sundog import __version__
from sundog.engines import sessions
from sundog.observe import packed

BEGIN, END = "-----BEGIN SUNDOG RECORDS-----", "-----END SUNDOG RECORDS-----"
_LINE = 76 * 100


def session_of(submission_id: str) -> str:
    """The folder of the newest session of a submitted job on this machine; empty if there is none."""
    for path in sorted(sessions.session_paths(None), reverse=True):
        try:
            with open(f"{path}/session.json", encoding="utf-8") as file:
                if json.load(file).get("submission_id") == submission_id:
                    return path
        except (OSError, ValueError):
            continue
    return ""


def printed(path: str) -> str:
    """The records of a session as text."""
    with tempfile.NamedTemporaryFile(suffix=".sundog") as file:
        packed.pack(path.rpartition("/")[2], path, file.name, __version__, lambda done, total: None)
        with open(file.name, "rb") as made:
            text = base64.b64encode(made.read()).decode()
    lines = [text[at : at + _LINE] for at in range(0, len(text), _LINE)]
    return "\n".join([BEGIN, *lines, END])


def taken(output: str) -> bytes | None:
    """The file in what such a job printed; None if there is none.

    >>> taken(f"a line of Ray's\\n{BEGIN}\\n{base64.b64encode(b'abc').decode()}\\n{END}\\n")
    b'abc'
    """
    _, begin, rest = output.partition(f"{BEGIN}\n")
    text, end, _ = rest.partition(f"\n{END}")
    return base64.b64decode(text) if begin and end else None


def main() -> int:
    """Print the records of a job."""
    path = session_of(sys.argv[1])
    if not path:
        print(
            f"There are no records of job {sys.argv[1]} on this node: its program did not call sundog's init()."
        )
        return 1
    print(printed(path))
    return 0


if __name__ == "__main__":
    sys.exit(main())
