"""What is left on a node when a job ends: records that were never sent, capsules, parts of profiles.

Owns the reading of all three. Runs in a task on each node, and in the driver for its own.
"""

from __future__ import annotations

import contextlib
import glob
import os

from sundog import trust
from sundog.ray_engine import profiles
from sundog.ray_engine.pushes import Push, process_of, read_push, rings_in


def sweep(
    folder: str, known: dict[str, tuple[int, int]]
) -> tuple[list[Push], dict[str, bytes], profiles.Files]:
    """The records of a node that Home does not have yet, the capsules of failed calls, and the profiles made there."""
    found = []
    for ring in rings_in(folder):
        push = read_push(ring, *known.get(process_of(ring), (0, 0)))
        if push is not None:
            found.append(push)
    capsules = {}
    for path in glob.glob(f"{glob.escape(folder)}/capsules/*"):
        with contextlib.suppress(OSError):  # a file of another user is not trusted: opening it runs code
            capsules[os.path.basename(path)] = trust.read_file(path)
    return found, capsules, profiles.all_files(folder)
