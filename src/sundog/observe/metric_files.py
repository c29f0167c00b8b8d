"""User metrics on disk: one mapped file per process, readable while it runs and after SIGKILL.

::

    Counter.inc() ──8 bytes in a mapping──► metrics/<process>.metrics ─┐
                                                                        ├─ read ──► /metrics, the page
    the node, for a process that is dead: fold ──► metrics/folded.json ─┘

    file     magic · bytes used · entry · entry · …
    entry    length of the key · key (JSON, filled up to 8 bytes) · values (8 bytes each)

Owns the layout, the writer, the reader, and what remains of a dead process: counters and histograms are added up for
ever, gauges are shown for `GAUGE_KEPT_S` more. A record sends no message. Bytes used are written last, so an entry is
whole or not there. Refuses: names of Prometheus. Written by drivers and workers under the lock of `util.metrics`,
folded by the node, read by any process.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import time
from collections.abc import Iterable
from struct import Struct

from sundog.plain import NamedTuple, field, plain
from sundog.room import reserve

FOLDER = "metrics"
COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"
GAUGE_KEPT_S = 300.0
FILE_MAX_BYTES = 4 << 20
_SUFFIX = ".metrics"
_FOLDED = "folded.json"
_MAGIC = b"SUNDOGM\x01"
_FIRST_BYTES = 4096
_LENGTH = Struct("<Q")
_HEADER_WORDS = 2
_FOLDED_MAX = 2000  # ids of processes, and gauges, that are remembered


class SeriesKey(NamedTuple):
    """One series: the metric it belongs to, and its tags."""

    name: str
    kind: str
    description: str
    tags: tuple[tuple[str, str], ...]
    boundaries: tuple[float, ...] = ()

    @property
    def width(self) -> int:
        """How many numbers it has: a gauge its time too; a histogram the sum, and a count for each bucket."""
        return {COUNTER: 1, GAUGE: 2}.get(self.kind, len(self.boundaries) + 2)


class Series(NamedTuple):
    """One series with its numbers. `process` is empty where several processes are added up."""

    key: SeriesKey
    values: tuple[float, ...]
    process: str = ""


class MetricFile:
    """The file of this process. One thread at a time.

    Raises:
        OSError: there is no room, or no folder, for it.
    """

    def __init__(self, session_path: str, process_id: bytes) -> None:
        folder = f"{session_path}/{FOLDER}"
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        self.path = f"{folder}/{process_id.hex()}{_SUFFIX}"
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(self.path, flags, 0o600)
        self._size = 0
        try:
            self._grow(_FIRST_BYTES)
        except OSError:
            os.close(self._fd)
            raise
        self._map[: len(_MAGIC)] = _MAGIC
        self._used = _HEADER_WORDS
        self.values[1] = self._used

    def _grow(self, size: int) -> None:
        reserve(self._fd, self._size, size)
        # The mapping before this one goes when its last view does.
        self._map = mmap.mmap(self._fd, size)
        self._size = size
        self.words = memoryview(self._map).cast("Q")
        self.values = memoryview(self._map).cast("d")

    def add(self, key: SeriesKey) -> int:
        """Take room for a series; the place of its first number in `values`.

        Raises:
            OSError: there is no room for it.
        """
        text = json.dumps(key, ensure_ascii=False).encode(errors="replace")
        filled = -(-len(text) // 8)
        needed = self._used + 1 + filled + key.width
        if needed * 8 > self._size:
            size = self._size
            while size < needed * 8:
                size *= 2
            if size > FILE_MAX_BYTES:
                raise OSError(28, "too many series of metrics")
            self._grow(size)
        at = self._used
        self.words[at] = len(text)
        self._map[(at + 1) * 8 : (at + 1) * 8 + len(text)] = text
        self._used = needed
        self.values[1] = needed  # last: the entry is whole now
        return needed - key.width

    def close(self) -> None:
        """Let the file go; it stays on the disk."""
        self.words.release()
        self.values.release()
        with contextlib.suppress(BufferError):
            self._map.close()
        os.close(self._fd)


# ---------------------------------------------------------------------- reading
def read(session_path: str, now: float | None = None) -> list[Series]:
    """All series of a session: of each process that has a file, and of the dead."""
    now = time.time() if now is None else now
    found = {process: _read_file(path) for process, path in _files(session_path)}
    folded = _load(
        session_path
    )  # after the files: a process that is folded meanwhile is in both, and counted once
    series = [each for process in found if process not in folded.processes for each in found[process]]
    gauges = [each for each, died_s in folded.gauges if now - died_s < GAUGE_KEPT_S]
    return [*series, *gauges, *folded.sums.values()]


def summed(series: Iterable[Series]) -> list[Series]:
    """Counters and histograms of the same key added up over processes; gauges as they are."""
    sums: dict[SeriesKey, Series] = {}
    gauges = []
    for each in series:
        if each.key.kind == GAUGE:
            gauges.append(each)
        else:
            _add(sums, each)
    return [*sums.values(), *gauges]


def _add(sums: dict[SeriesKey, Series], each: Series) -> None:
    known = sums.get(each.key)
    values = each.values if known is None else tuple(a + b for a, b in zip(known.values, each.values))
    sums[each.key] = Series(each.key, values)


def is_one(name: str) -> bool:
    """Whether a file of the folder holds metrics."""
    return name.endswith((_SUFFIX, f"/{_FOLDED}"))


def _files(session_path: str) -> list[tuple[str, str]]:
    folder = f"{session_path}/{FOLDER}"
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [(name.removesuffix(_SUFFIX), f"{folder}/{name}") for name in names if name.endswith(_SUFFIX)]


def _read_file(path: str) -> list[Series]:
    """The series of one process; what is no such file, or broken, has none from there on."""
    try:
        with open(path, "rb") as file:
            data = file.read(FILE_MAX_BYTES)
    except OSError:
        return []
    if data[: len(_MAGIC)] != _MAGIC or len(data) < _HEADER_WORDS * 8:
        return []
    process = os.path.basename(path).removesuffix(_SUFFIX)
    words = memoryview(data[: len(data) // 8 * 8])
    numbers = words.cast("d")
    used = numbers[1]
    end = min(int(used), len(numbers)) if used == used and used >= 0 else 0
    at, found = _HEADER_WORDS, []
    while at < end:
        length = _LENGTH.unpack_from(data, at * 8)[0]
        first = at + 1 + -(-length // 8)
        key = _key(data[(at + 1) * 8 : (at + 1) * 8 + length]) if first <= end else None
        if key is None or first + key.width > end:
            break
        found.append(Series(key, tuple(numbers[first : first + key.width].tolist()), process))
        at = first + key.width
    return found


def _key(text: bytes) -> SeriesKey | None:
    try:
        return _key_of(*json.loads(text))
    except (ValueError, TypeError):
        return None


def _key_of(
    name: object,
    kind: str,
    description: object,
    tags: Iterable[tuple[object, object]],
    boundaries: Iterable[float],
) -> SeriesKey:
    if kind not in (COUNTER, GAUGE, HISTOGRAM):
        raise ValueError(kind)
    pairs = tuple((str(key), str(value)) for key, value in tags)
    return SeriesKey(str(name), kind, str(description), pairs, tuple(float(each) for each in boundaries))


# ---------------------------------------------------------------------- the dead
@plain()
class Folded:
    """What is kept of dead processes."""

    sums: dict[SeriesKey, Series] = field(default_factory=dict)
    gauges: list[tuple[Series, float]] = field(default_factory=list)
    processes: list[str] = field(default_factory=list)


def fold(session_path: str, process_id: bytes, now: float | None = None) -> bool:
    """Add up what a dead process counted, and remove its file; False if it has none. For the node.

    Raises:
        OSError: the disk is full; the file stays.
    """
    now = time.time() if now is None else now
    process = process_id.hex()
    path = f"{session_path}/{FOLDER}/{process}{_SUFFIX}"
    if not os.path.exists(path):
        return False
    folded = _load(session_path)
    if process not in folded.processes:
        for each in _read_file(path):
            if each.key.kind == GAUGE:
                folded.gauges.append((each, now))
            else:
                _add(folded.sums, each)
        folded.gauges = [each for each in folded.gauges if now - each[1] < GAUGE_KEPT_S][-_FOLDED_MAX:]
        folded.processes = [*folded.processes, process][-_FOLDED_MAX:]
        _save(session_path, folded)
    os.unlink(path)
    return True


def _load(session_path: str) -> Folded:
    try:
        with open(f"{session_path}/{FOLDER}/{_FOLDED}", encoding="utf-8") as file:
            rows = json.load(file)
        sums = [Series(_key_of(*key), tuple(values)) for key, values in rows["sums"]]
        gauges = [
            (Series(_key_of(*key), tuple(values), process), died_s)
            for key, values, process, died_s in rows["gauges"]
        ]
        return Folded({each.key: each for each in sums}, gauges, list(rows["processes"]))
    except (OSError, ValueError, KeyError, TypeError):
        return Folded()


def _save(session_path: str, folded: Folded) -> None:
    rows = {
        "sums": [(each.key, each.values) for each in folded.sums.values()],
        "gauges": [(each.key, each.values, each.process, died_s) for each, died_s in folded.gauges],
        "processes": folded.processes,
    }
    path = f"{session_path}/{FOLDER}/{_FOLDED}"
    fd = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with open(fd, "w", encoding="utf-8") as file:
        json.dump(rows, file)
    os.replace(f"{path}.new", path)
