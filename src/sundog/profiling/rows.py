"""What a profile is: files of one folder, one for each process, and what they add up to.

::

    <session>/profiles/<id>/  profile.json      what was asked
                              <pid>.json        what one process found: stacks, lines, memory
                              <pid>.bin         memray's own file, of memory profiles
                              flame.html  speedscope.json  table.txt     made when it is shown

Owns the rows, their files and their sum. JSON only: reading a profile runs nothing. Runs in any process.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import TYPE_CHECKING

from sundog import trust
from sundog.plain import NamedTuple

if TYPE_CHECKING:
    from sundog.plain import JsonObject

KINDS = ("cpu", "wall", "line", "memory")


class ProfileFrame(NamedTuple):
    """One function in a stack."""

    name: str
    path: str
    line: int


Stack = tuple[ProfileFrame, ...]


class Samples(NamedTuple):
    """What a sampler has found: seconds and looks for each stack, under the name of its remote function."""

    kind: str
    looks: int
    look_s: float
    elapsed_s: float
    stacks: dict[tuple[str, Stack], tuple[float, int]]


class LineTimes(NamedTuple):
    """Hits and seconds of the lines of one function."""

    path: str
    first_line: int
    name: str
    lines: dict[int, tuple[int, float]]


class Allocation(NamedTuple):
    """Memory by where it was asked for."""

    label: str
    stack: Stack
    size_bytes: int
    allocations: int


class MemoryProfile(NamedTuple):
    """What memray has found in one process."""

    peak_bytes: int
    at_peak: list[Allocation]
    kept: list[Allocation]  # allocated meanwhile, and not freed when it ended
    calls: dict[
        str, tuple[int, int]
    ]  # of each function: how often it was measured, and its largest peak in bytes
    file: str = ""


class Part(NamedTuple):
    """What one process adds to a profile."""

    pid: int
    role: str
    session: str
    samples: Samples | None = None
    lines: list[LineTimes] | None = None
    memory: MemoryProfile | None = None


class Profile(NamedTuple):
    """All of a profile."""

    folder: str
    kind: str
    what: str
    begun_s: float
    parts: list[Part]

    @property
    def id(self) -> str:
        """Its name among the profiles of its session."""
        return os.path.basename(self.folder)


def begin(folder: str, kind: str, what: str) -> None:
    """Make the folder of a profile.

    Raises:
        OSError: it cannot be made.
    """
    trust.make_folder(folder)
    _write(f"{folder}/profile.json", {"kind": kind, "what": what, "begun_s": time.time()})


def write_part(folder: str, part: Part) -> None:
    """Write what one process found; a later write takes the place of an earlier one."""
    row: JsonObject = {"pid": part.pid, "role": part.role, "session": part.session}
    if part.samples is not None:
        stacks = [
            [label, stack, weight, count] for (label, stack), (weight, count) in part.samples.stacks.items()
        ]
        row["samples"] = [*part.samples[:4], stacks]
    if part.lines is not None:
        row["lines"] = [[*each[:3], [[n, *found] for n, found in each.lines.items()]] for each in part.lines]
    if part.memory is not None:
        row["memory"] = part.memory._asdict()
    _write(f"{folder}/{part.pid}.json", row)


def _write(path: str, row: JsonObject) -> None:
    part = f"{path}.part"
    with open(part, "w", encoding="utf-8", errors="backslashreplace") as file:
        json.dump(row, file)
    os.replace(part, path)


def read(folder: str) -> Profile:
    """Read a profile.

    Raises:
        OSError: there is none.
        ValueError: it is damaged.
    """
    with open(f"{folder}/profile.json", encoding="utf-8") as file:
        head = json.load(file)
    parts = []
    for name in sorted(os.listdir(folder)):
        if name.removesuffix(".json").isdigit() and name.endswith(".json"):
            with open(f"{folder}/{name}", encoding="utf-8") as file:
                parts.append(_part(json.load(file)))
    return Profile(folder, head["kind"], head["what"], head["begun_s"], parts)


def _part(row: JsonObject) -> Part:
    samples = lines = memory = None
    if "samples" in row:
        kind, looks, look_s, elapsed_s, stacks = row["samples"]
        found = {(label, _stack(stack)): (weight, count) for label, stack, weight, count in stacks}
        samples = Samples(kind, looks, look_s, elapsed_s, found)
    if "lines" in row:
        lines = [
            LineTimes(p, f, n, {at: (hits, s) for at, hits, s in rows}) for p, f, n, rows in row["lines"]
        ]
    if "memory" in row:
        fields = row["memory"]
        for name in ("at_peak", "kept"):
            fields[name] = [Allocation(each[0], _stack(each[1]), each[2], each[3]) for each in fields[name]]
        fields["calls"] = {name: tuple(found) for name, found in fields["calls"].items()}
        memory = MemoryProfile(**fields)
    return Part(row["pid"], row["role"], row["session"], samples, lines, memory)


def _stack(frames: list[tuple[str, str, int]]) -> Stack:
    return tuple(ProfileFrame(*each) for each in frames)


def profiles_of(session_path: str) -> list[Profile]:
    """The profiles of a session, the newest first."""
    folder = f"{session_path}/profiles"
    if not trust.is_ours(folder):
        return []
    found = []
    for name in os.listdir(folder):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            found.append(read(f"{folder}/{name}"))
    return sorted(found, key=lambda each: each.begun_s, reverse=True)
