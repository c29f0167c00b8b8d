"""What a session uses, read from the kernel: memory, descriptors, processes, files, shared memory.

Owns the readings and their names. The driver, the node, the zygote and workers that live from the first sample to the
last have lines of their own; workers that come and go have one together, of what each has. Reads only; a process that
ends meanwhile is left out. Runs in the program that plays the soak.
"""

from __future__ import annotations

import contextlib
import os
import statistics

from tests.soak.judge import BYTES, COUNT, DESCRIPTORS, FILES, MEMORY, SPILLED, Kind, Line

Sample = dict[str, float]
_MB = 1e6
_SPILLED = "spilled_objects"
_KINDS: tuple[tuple[str, Kind], ...] = (
    ("memory of ", MEMORY),
    ("descriptors of ", DESCRIPTORS),
    ("threads of ", COUNT),
    ("files in ", FILES),
    ("bytes in spilled", SPILLED),
    ("bytes in ", BYTES),
    ("processes", COUNT),
)


def children_of(pid: int) -> list[int]:
    """The processes that a process has started, or adopted."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                found += map(int, file.read().split())
    return found


def status_of(pid: int) -> tuple[float, int]:
    """Memory of a process that no file backs, in MB, and its threads.

    Raises:
        OSError: it is gone.
    """
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
        rows = dict(line.partition(":")[::2] for line in file)
    if "RssAnon" not in rows:
        raise ProcessLookupError(pid)  # a zombie
    return int(rows["RssAnon"].split()[0]) * 1024 / _MB, int(rows["Threads"])


def folder_of(path: str, without: str = "") -> tuple[int, float]:
    """Files below a folder, but for one folder in it, and the megabytes that they take up."""
    files, blocks = 0, 0
    for folder, folders, names in os.walk(path):
        if without in folders:
            folders.remove(without)
        for name in names:
            with contextlib.suppress(OSError):
                blocks += os.lstat(f"{folder}/{name}").st_blocks
                files += 1
    return files, blocks * 512 / _MB


class Sampler:
    """Reads one session again and again."""

    def __init__(self, driver: int, session_path: str, shm_root: str) -> None:
        self.driver = driver
        self.session_path = session_path
        self.shm_root = shm_root

    def sample(self) -> Sample:
        """One look at everything."""
        found: Sample = {}
        nodes = children_of(self.driver)
        zygotes = [child for node in nodes for child in children_of(node)]
        workers = [child for zygote in zygotes for child in children_of(zygote)]
        for role, pids in (("the driver", [self.driver]), ("the node", nodes), ("the zygote", zygotes)):
            for pid in pids[:1]:
                self._read(found, role, pid)
        for pid in workers:
            self._read(found, f"worker {pid}", pid)
        found["processes"] = 1 + len(nodes) + len(zygotes) + len(workers)
        spilled = f"{self.session_path}/{_SPILLED}"
        for folder, path in (
            ("the session's folder", self.session_path),
            ("shared memory", self.shm_root),
            ("spilled objects", spilled),
        ):
            found[f"files in {folder}"], found[f"bytes in {folder}"] = folder_of(path, _SPILLED)
        return found

    def _read(self, found: Sample, role: str, pid: int) -> None:
        with contextlib.suppress(OSError):
            memory, threads = status_of(pid)
            descriptors = len(os.listdir(f"/proc/{pid}/fd"))
            found[f"memory of {role}"] = memory
            found[f"threads of {role}"] = threads
            found[f"descriptors of {role}"] = descriptors


def lines_of(samples: list[tuple[float, Sample]]) -> list[Line]:
    """A line for each figure that is in most samples, and one for what each worker had that came and went."""
    if not samples:
        return []
    names = sorted({name for _, sample in samples[len(samples) // 2 :] for name in sample})
    lines = []
    for name in names:
        points = [(at, sample[name]) for at, sample in samples if name in sample]
        if len(points) >= 0.9 * len(samples):
            lines.append(Line(name, kind_of(name), points))
    lasting = {line.name for line in lines}
    for figure in ("memory", "descriptors", "threads"):
        points = []
        for at, sample in samples:
            found = [
                value
                for name, value in sample.items()
                if name.startswith(f"{figure} of worker") and name not in lasting
            ]
            if found:
                # Not their sum: how many there are at a moment depends on who gets a processor, and `processes` tells.
                points.append((at, statistics.fmean(found)))
        if points:
            name = f"{figure} of workers that come and go, each"
            lines.append(Line(name, kind_of(f"{figure} of "), points))
    return lines


def kind_of(name: str) -> Kind:
    """What sort of figure a name is of."""
    return next(kind for start, kind in _KINDS if name.startswith(start))
