"""What the kernel says of the machine, of the control groups this process is in, and of processes: memory, and time.

Owns the reading of /proc and of cgroup v1 and v2, nested ones too. Counted is what cannot be reclaimed: a full page
cache is no shortage, shared memory is in use. Refuses: deciding anything, and keeping state between readings. Runs
in any process, on whichever thread asks; one reading takes about a tenth of a millisecond.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_UNLIMITED = 1 << 60  # cgroup v1 expresses "no limit" by a number about as large as an address space
_CGROUPS = "/sys/fs/cgroup"


class Reading:
    """How much of some memory is in use: of the machine's, or of a control group's limit."""

    __slots__ = ("total_bytes", "used_bytes", "where")

    def __init__(self, used_bytes: int, total_bytes: int, where: str) -> None:
        self.used_bytes = used_bytes
        self.total_bytes = total_bytes
        self.where = where

    @property
    def share(self) -> float:
        """Used over total."""
        return self.used_bytes / self.total_bytes if self.total_bytes else 0.0


class MemoryGroup:
    """A memory control group, by its folder."""

    __slots__ = ("path", "version")

    def __init__(self, path: str, version: int) -> None:
        self.path = path
        self.version = version

    def limit_bytes(self) -> int | None:
        """What the group may use; None without a limit."""
        text = _read(f"{self.path}/{'memory.max' if self.version == 2 else 'memory.limit_in_bytes'}").strip()
        if not text.isdigit():
            return None
        return limit if (limit := int(text)) < _UNLIMITED else None

    def used_bytes(self) -> int | None:
        """What the group and those below it use and cannot give back by dropping caches."""
        name = "memory.current" if self.version == 2 else "memory.usage_in_bytes"
        text = _read(f"{self.path}/{name}").strip()
        if not text.isdigit():
            return None
        stat = dict(line.split(" ", 1) for line in _read(f"{self.path}/memory.stat").splitlines())
        kept = ["active_file", "inactive_file", "slab_reclaimable"]
        if self.version == 1:
            kept = ["total_active_file", "total_inactive_file"]
        return max(0, int(text) - sum(int(stat.get(each, 0)) for each in kept))


def groups(membership: str = "/proc/self/cgroup", root: str = _CGROUPS) -> list[MemoryGroup]:
    """The memory control groups this process is in, its own first, then those around it.

    Within a container the path in `membership` may be the host's; then the group is mounted at the root.
    """
    found: list[MemoryGroup] = []
    for line in _read(membership).splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            found += _around(f"{root}/memory", path, 1)
        elif not controllers:
            for base in (root, f"{root}/unified"):
                found += _around(base, path, 2)
    return found


def _around(base: str, path: str, version: int) -> list[MemoryGroup]:
    file = "memory.current" if version == 2 else "memory.usage_in_bytes"
    parts = [part for part in path.split("/") if part]
    if not os.path.isdir("/".join([base, *parts])):
        parts = []
    folders = ["/".join([base, *parts[:depth]]) for depth in range(len(parts), -1, -1)]
    return [MemoryGroup(folder, version) for folder in folders if os.path.exists(f"{folder}/{file}")]


def read_machine(meminfo: str = "/proc/meminfo") -> Reading:
    """The machine's memory: used is what is not available to a new program."""
    figures: dict[str, int] = {}
    for line in _read(meminfo).splitlines()[:8]:
        name, _, rest = line.partition(":")
        figures[name] = int(rest.split()[0]) * 1024
    total = figures.get("MemTotal", PAGE_BYTES * os.sysconf("SC_PHYS_PAGES"))
    return Reading(max(0, total - figures.get("MemAvailable", total)), total, "this machine")


def read(around: list[MemoryGroup]) -> Reading:
    """The tightest of the machine and the control groups `around`: the one with the largest share in use."""
    tightest = read_machine()
    machine = tightest.total_bytes
    for group in around:
        limit = group.limit_bytes()
        if limit is None or limit >= machine:
            continue
        used = group.used_bytes()
        if used is not None and used / limit > tightest.share:
            tightest = Reading(used, limit, f"the control group {group.path}")
    return tightest


def limit_bytes() -> int:
    """The memory this process may count on: the machine's or, if that is less, the smallest limit around it."""
    limits = [limit for group in groups() if (limit := group.limit_bytes()) is not None]
    return min([PAGE_BYTES * os.sysconf("SC_PHYS_PAGES"), *limits])


def own_bytes(pid: int) -> int:
    """Memory that a process holds for itself: resident, without files and shared segments; 0 if it is gone."""
    fields = _read(f"/proc/{pid}/statm").split()
    return max(0, int(fields[1]) - int(fields[2])) * PAGE_BYTES if len(fields) > 2 else 0


def pids() -> list[int]:
    """Every process that can be seen from here."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def title(pid: int) -> str:
    """What a process calls itself: the start of its command line, or its name."""
    words = _read(f"/proc/{pid}/cmdline").replace("\0", " ").split()
    return " ".join(words)[:60] if words else _read(f"/proc/{pid}/comm").strip()


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped (SIGSTOP, a debugger)."""
    return _read(f"/proc/{pid}/stat").rpartition(")")[2].split()[:1] in (["T"], ["t"])


def wants_processor(pid: int) -> bool:
    """Whether a process runs, or would if it had a processor or its disk answered; it does not wait for others."""
    return _read(f"/proc/{pid}/stat").rpartition(")")[2].split()[:1] in (["R"], ["D"])


def folder_bytes(path: str) -> int:
    """What the files of a folder occupy."""
    try:
        with os.scandir(path) as entries:
            return sum(entry.stat(follow_symlinks=False).st_blocks for entry in entries) * 512
    except OSError:
        return 0


def _read(path: str) -> str:
    """A small file of the kernel's; empty if it is not there, or no longer."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(fd, 65536).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(fd)


# ---------------------------------------------------------------------- accelerators
_NVIDIA = "/proc/driver/nvidia/gpus"


def visible_ids(text: str | None) -> list[str] | None:
    """The ids in a variable such as CUDA_VISIBLE_DEVICES: numbers or UUIDs; None if it is not set.

    >>> visible_ids("3,GPU-8932f937"), visible_ids(""), visible_ids(None)
    (['3', 'GPU-8932f937'], [], None)
    """
    if text is None:
        return None
    return [] if text in ("", "NoDevFiles") else text.split(",")


def gpus(asked: float | None, variable: str | None) -> float:
    """How many GPUs a session has: what was asked for, or else what the machine has and the variable shows.

    Raises:
        ValueError: more were asked for than the variable shows.
    """
    seen = visible_ids(variable)
    if asked is not None:
        if seen is not None and asked > len(seen):
            raise ValueError(
                f"num_gpus={asked:g}, but CUDA_VISIBLE_DEVICES shows only {len(seen)}: {variable!r}. Ask for fewer, or "
                "change or unset the variable."
            )
        return asked
    try:
        count = len(os.listdir(_NVIDIA))
    except OSError:
        return 0
    return count if seen is None else min(count, len(seen))


def physical_cores() -> int:
    """How many cores this process may use, hardware threads of one core counted once."""
    allowed = os.sched_getaffinity(0)
    cores = set()
    for cpu in allowed:
        cores.add(
            _read(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").strip() or str(cpu)
        )
    return max(1, len(cores))


def processor_seconds(pid: int) -> float:
    """What a process has used of the processors, all its threads together; 0 if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
    except (OSError, IndexError, ValueError):
        return 0.0


_LABEL_VARIABLES = {
    "RAY_NODE_MARKET_TYPE": "ray.io/market-type",
    "RAY_NODE_TYPE_NAME": "ray.io/node-group",
    "RAY_NODE_REGION": "ray.io/availability-region",
    "RAY_NODE_ZONE": "ray.io/availability-zone",
}


def labels(environ: Mapping[str, str]) -> dict[str, str]:
    """Labels that launchers give a node by variables; names of variables and labels are Ray's.

    >>> labels({"RAY_NODE_ZONE": "a", "RAY_NODE_REGION": ""})
    {'ray.io/availability-zone': 'a'}
    """
    return {label: environ[name] for name, label in _LABEL_VARIABLES.items() if environ.get(name)}
