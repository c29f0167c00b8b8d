"""The parts of a profile added up: by remote function, by line, by place of allocation; and as a table.

Pure: rows in, rows and text out.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterable

from sundog.plain import NamedTuple
from sundog.profiling.rows import Allocation, LineTimes, MemoryProfile, Part, Profile, ProfileFrame, Stack

_SHOWN = 15
_MIB = 1 << 20


class ByFunction(NamedTuple):
    """A remote function, with what its own lines cost most."""

    label: str
    seconds: float
    samples: int
    hottest: ProfileFrame  # the innermost line that most of it was spent at
    hottest_s: float


def stacks_of(parts: Iterable[Part]) -> dict[tuple[str, Stack], tuple[float, int]]:
    """The samples of all processes."""
    total: dict[tuple[str, Stack], tuple[float, int]] = {}
    for part in parts:
        for key, (seconds, count) in part.samples.stacks.items() if part.samples is not None else ():
            before = total.get(key, (0.0, 0))
            total[key] = (before[0] + seconds, before[1] + count)
    return total


def by_function(parts: Iterable[Part]) -> list[ByFunction]:
    """Seconds of each remote function, most first."""
    found: dict[str, tuple[float, int]] = {}
    lines: dict[str, dict[ProfileFrame, float]] = {}
    for (label, stack), (seconds, count) in stacks_of(parts).items():
        before = found.get(label, (0.0, 0))
        found[label] = (before[0] + seconds, before[1] + count)
        own = lines.setdefault(label, {})
        own[stack[-1]] = own.get(stack[-1], 0.0) + seconds
    rows = []
    for label, (seconds, count) in found.items():
        hottest = max(lines[label], key=lambda frame: lines[label][frame])
        rows.append(ByFunction(label, seconds, count, hottest, lines[label][hottest]))
    return sorted(rows, key=lambda row: row.seconds, reverse=True)


def overhead(parts: Iterable[Part]) -> float:
    """The share of the time that the looks took, in the process where it was largest."""
    shares = [
        part.samples.look_s / part.samples.elapsed_s
        for part in parts
        if part.samples is not None and part.samples.elapsed_s > 0
    ]
    return max(shares, default=0.0)


def lines_of(parts: Iterable[Part]) -> list[LineTimes]:
    """Hits and seconds of lines, over all processes and calls."""
    total: dict[tuple[str, int, str], dict[int, tuple[int, float]]] = {}
    for part in parts:
        for each in part.lines or ():
            own = total.setdefault((each.path, each.first_line, each.name), {})
            for line, (hits, seconds) in each.lines.items():
                before = own.get(line, (0, 0.0))
                own[line] = (before[0] + hits, before[1] + seconds)
    return [LineTimes(*key, found) for key, found in sorted(total.items())]


def memory_of(parts: Iterable[Part]) -> MemoryProfile:
    """What all processes had at their peaks and kept, by function and line."""
    at_peak: dict[tuple[str, ProfileFrame], Allocation] = {}
    kept: dict[tuple[str, ProfileFrame], Allocation] = {}
    calls: dict[str, tuple[int, int]] = {}
    peak = 0
    for part in parts:
        if part.memory is None:
            continue
        peak = max(peak, part.memory.peak_bytes)
        for rows, total in ((part.memory.at_peak, at_peak), (part.memory.kept, kept)):
            for row in rows:
                key = (row.label, row.stack[-1])
                before = total.get(key)
                total[key] = (
                    row
                    if before is None
                    else before._replace(
                        size_bytes=before.size_bytes + row.size_bytes,
                        allocations=before.allocations + row.allocations,
                    )
                )
        for name, (count, largest) in part.memory.calls.items():
            before_calls = calls.get(name, (0, 0))
            calls[name] = (before_calls[0] + count, max(before_calls[1], largest))
    return MemoryProfile(peak, _by_size(at_peak.values()), _by_size(kept.values()), calls)


def _by_size(rows: Iterable[Allocation]) -> list[Allocation]:
    return sorted(rows, key=lambda row: row.size_bytes, reverse=True)


# ---------------------------------------------------------------------- text
def table(profile: Profile) -> str:
    """A profile as text."""
    head = f"{profile.kind} profile of {profile.what}: {len(profile.parts)} processes"
    if profile.kind == "line":
        return "\n".join([head, *(_line_table(each) for each in lines_of(profile.parts))])
    if profile.kind == "memory":
        return "\n".join([head, *_memory_table(memory_of(profile.parts))])
    return "\n".join([head, *_sample_table(profile)])


def _sample_table(profile: Profile) -> list[str]:
    rows = by_function(profile.parts)
    total = sum(row.seconds for row in rows)
    looks = sum(part.samples.looks for part in profile.parts if part.samples is not None)
    unit = "CPU" if profile.kind == "cpu" else "wall"
    out = [
        f"{looks} looks; they took {overhead(profile.parts):.1%} of one processor, in the process where it was most",
        "",
        f"  {unit + ' s':>8}  {'share':>6}  {'function':<28}  most of it at",
    ]
    for row in rows[:_SHOWN]:
        share = row.seconds / total if total else 0.0
        at = f"{_place(row.hottest)} {row.hottest.name} ({row.hottest_s / row.seconds:.0%})"
        out.append(f"  {row.seconds:>8.2f}  {share:>6.1%}  {row.label:<28}  {at}")
    return out if rows else [*out[:1], "nothing was running"]


def _line_table(found: LineTimes) -> str:
    total = sum(seconds for _, seconds in found.lines.values())
    last = max(found.lines, default=found.first_line)
    out = ["", f"{found.name} ({found.path}:{found.first_line}), {total:.3g} s in its lines"]
    out.append(f"  {'line':>5}  {'hits':>8}  {'ms':>10}  {'µs/hit':>9}  {'share':>6}  code")
    for line in range(found.first_line, last + 1):
        hits, seconds = found.lines.get(line, (0, 0.0))
        code = linecache.getline(found.path, line).rstrip()
        if hits:
            share = seconds / total if total else 0.0
            each = seconds / hits * 1e6
            out.append(f"  {line:>5}  {hits:>8}  {seconds * 1e3:>10.1f}  {each:>9.1f}  {share:>6.1%}  {code}")
        else:
            out.append(f"  {line:>5}  {'':>8}  {'':>10}  {'':>9}  {'':>6}  {code}")
    return "\n".join(out)


def _memory_table(found: MemoryProfile) -> list[str]:
    out = [f"largest peak of a process or call: {found.peak_bytes / _MIB:.1f} MiB"]
    if found.calls:
        out += ["", f"  {'peak MiB':>9}  {'calls':>6}  function or method"]
        for name, (count, peak) in sorted(found.calls.items(), key=lambda row: row[1][1], reverse=True)[
            :_SHOWN
        ]:
            out.append(f"  {peak / _MIB:>9.1f}  {count:>6}  {name}")
    if not found.kept and not found.at_peak:
        return [*out, "Nothing was allocated while it was measured: no task or call ran there."]
    for title, rows in (
        ("Not freed when it ended: a leak, or what is meant to stay", found.kept),
        ("At the peak", found.at_peak),
    ):
        out += ["", title, f"  {'MiB':>9}  {'count':>8}  {'function':<28}  line"]
        for row in rows[:_SHOWN]:
            frame = row.stack[-1]
            code = linecache.getline(frame.path, frame.line).strip()[:60]
            size = row.size_bytes / _MIB
            at = f"{_place(frame)} {frame.name}"
            out.append(f"  {size:>9.2f}  {row.allocations:>8}  {row.label:<28}  {at}  {code}")
    return out


def _place(frame: ProfileFrame) -> str:
    place = os.path.basename(frame.path)
    return f"{place}:{frame.line}" if frame.line else place  # the libraries of C code have no lines
