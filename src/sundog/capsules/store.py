"""Which capsules there are, in the folders of sessions, running or ended.

Owns the search by the id of a task. Reads headers only, which runs nothing. Runs in the caller's process.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from sundog import trust
from sundog.capsules.rows import SUFFIX, Header, NotACapsule, read_header
from sundog.plain import NamedTuple


class Found(NamedTuple):
    """A capsule in a session's folder."""

    path: str
    header: Header


def capsules_of(session_path: str) -> list[Found]:
    """The capsules of a session, the newest first; of a folder that is another user's, none."""
    folder = f"{session_path}/capsules"
    if not trust.is_ours(folder):
        return []
    found = []
    for name in os.listdir(folder):
        if name.endswith(SUFFIX):
            path = f"{folder}/{name}"
            try:
                os.close(trust.open_file(path))
                found.append(Found(path, read_header(path)))
            except (OSError, NotACapsule):
                continue
    return sorted(found, key=lambda each: each.header.made_s, reverse=True)


def find(session_paths: Iterable[str], wanted: str) -> list[Found]:
    """The capsules that a word means: the id of a task or the beginning of it, or a function's name; newest first.

    Without a word: all, those of failures before those of runs that succeeded.
    """
    found = [each for path in session_paths for each in capsules_of(path)]
    if not wanted:
        return sorted(found, key=lambda each: (not each.header.outcome.error, -each.header.made_s))
    exact = [each for each in found if each.header.task_id == wanted.lower()]
    if exact:
        return sorted(exact, key=lambda each: each.header.attempt, reverse=True)
    meant = [
        each
        for each in found
        if each.header.task_id.startswith(wanted.lower())
        or wanted in (each.header.name, each.header.function)
    ]
    # A task whose name was changed with options(name=…) is meant only if no task has the wanted name.
    return sorted(meant, key=lambda each: each.header.name != wanted)
