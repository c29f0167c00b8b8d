"""Profiles on a Ray cluster: of functions with `profile=`, of a whole program, and of workers that run.

::

    worker ── its part ──► <folder of its node>/profiles/ID/PID.json ── sweep, or a task there ──► <session>/profiles/ID
    sundog profile attach ──► the driver ──► a task on each node ── by a pipe ──► a thread of the worker

Owns the parts on their way; the pipe is `ray_engine/asks.py`, what is measured and how parts add up is
`sundog.profiling`. Runs in workers, in tasks on their nodes, and in the driver.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import threading
import time

from sundog import trust
from sundog.profiling import recorder
from sundog.profiling.rows import Part, begin
from sundog.profiling.sampler import RATE_HZ, StackSampler
from sundog.ray_engine import asks, process
from sundog.ray_engine.pushes import rings_in
from sundog.wire.inspect import ALL, measure_everything, measured_of_all
from sundog.wire.profiles import ProfileSpec
from sundog.worker.profiles import Profiler, make_profiler

WHOLE = "whole-program"
_FILE_MAX = 64 << 20
_LIMIT_S = 24 * 3600.0
LATER_S = 0.2
_PARTS_S = 15.0  # how long after its time a worker may take to write its part
_LOOK_S = 0.02
_made: dict[str, Profiler] = {}
_lock = threading.Lock()

Files = dict[str, bytes]


# ---------------------------------------------------------------------- in workers: by option, and of whole programs
class Continuous(Profiler):
    """Samples of all that this worker does, from its first call on: calls may be shorter than the time of a look."""

    def __init__(self, kind: str, folder: str, rate_hz: float) -> None:
        super().__init__(kind, folder)
        self._folder = f"{folder}/profiles/{WHOLE}-{kind}"
        self._sampler = StackSampler(kind, rate_hz)
        self._sampler.start()

    def part(self) -> Part:
        """What was found so far."""
        return super().part()._replace(samples=self._sampler.result())


def profiler_of(asked: str, function: object) -> Profiler | None:
    """The profiler for a function with this option; None where nothing is recorded."""
    me = process.me
    if me is None or not me.folder:
        return None
    is_all = asked.startswith(ALL)
    kind, _, names = asked.removeprefix(ALL).partition(":")
    if is_all:
        measure_everything(asked.removeprefix(ALL))  # also for tasks that are submitted from here
    with _lock:
        found = _made.get(asked)
        if found is None:
            if is_all and kind in ("cpu", "wall"):
                found = Continuous(kind, me.folder, float(names or RATE_HZ))
            else:
                found = make_profiler(kind, me.folder)
            _made[asked] = found
    if names and kind == "line":
        found.choose(function, tuple(names.split(",")), only=is_all)
    return found


# ---------------------------------------------------------------------- in a task on a node
def take(folder: str, pids: list[int], kind: str, rate_hz: float, seconds: float, name: str) -> Files:
    """Profile the workers of a job on this node, all or these; their parts, by the names of their files."""
    spec = ProfileSpec(name, kind, rate_hz, seconds, f"{folder}/profiles/{name}")
    asked: list[int] = []
    for ring in rings_in(folder):
        with open(f"{ring}.json", encoding="utf-8") as file:
            facts = json.load(file)
        if facts["role"] == "worker" and (not pids or facts["pid"] in pids) and facts["pid"] != os.getpid():
            if not asked:
                begin(spec.folder, kind, "")
            if asks.ask(ring, list(spec)):
                asked.append(facts["pid"])
    until = time.monotonic() + seconds + _PARTS_S
    while time.monotonic() < until:
        missing = [pid for pid in asked if not os.path.exists(f"{spec.folder}/{pid}.json")]
        if not any(os.path.exists(f"/proc/{pid}") for pid in missing):
            break
        time.sleep(_LOOK_S)
    found = files_in(f"{folder}/profiles/{name}", name)
    if asked:
        trust.remove(spec.folder)
    return found


def files_in(folder: str, name: str) -> Files:
    """The files of one profile."""
    found = {}
    for path in glob.glob(f"{glob.escape(folder)}/*"):
        with contextlib.suppress(OSError):
            if not path.endswith(".part") and os.path.getsize(path) <= _FILE_MAX:
                with open(path, "rb") as file:
                    found[f"{name}/{os.path.basename(path)}"] = file.read()
    return found


def all_files(folder: str) -> Files:
    """The files of all profiles of a job on this node."""
    found: Files = {}
    for each in glob.glob(f"{glob.escape(folder)}/profiles/*"):
        found.update(files_in(each, os.path.basename(each)))
    return found


# ---------------------------------------------------------------------- in the driver
def of_driver(session_path: str) -> recorder.Recorder | None:
    """The driver's own part of a profile of the whole program, begun; None if none was asked for."""
    kind, _, rate = measured_of_all().removeprefix(ALL).partition(":")
    if kind not in ("cpu", "wall"):
        return None
    folder = f"{session_path}/profiles/{WHOLE}-{kind}"
    begin(folder, kind, "the whole program")
    made = recorder.Recorder(
        ProfileSpec(WHOLE, kind, float(rate or RATE_HZ), _LIMIT_S, folder), "driver", session_path
    )
    made.start()
    return made


def keep(session_path: str, node: str, files: Files) -> None:
    """Write the parts of a node into the session's folder: processes of two nodes may have the same pid."""
    number = int(node[:8], 16)
    for name, data in files.items():
        profile, _, file = name.partition("/")
        folder = f"{session_path}/profiles/{profile}"
        trust.make_folder(f"{session_path}/profiles")
        trust.make_folder(folder)
        if file == "profile.json":
            if not os.path.exists(f"{folder}/{file}"):
                _write(f"{folder}/{file}", data)
        elif file.removesuffix(".json").isdigit() and file.endswith(".json"):
            row = json.loads(data)
            row["session"] = session_path
            if row.get("memory") and row["memory"].get("file"):
                row["memory"]["file"] = f"{number}-{row['memory']['file']}"
            _write(f"{folder}/{number}{file}", json.dumps(row).encode())
        else:
            _write(f"{folder}/{number}-{file}", data)


def _write(path: str, data: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)
