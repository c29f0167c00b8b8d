"""The cells of `sundog top`: a look at the session as rows of text, sorted as the user wants them.

Pure: `observe.activity` in, strings out. Runs in the terminal's process.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from sundog.observe.words import in_units, in_words
from sundog.printable import printable

if TYPE_CHECKING:
    from sundog.observe.activity import Activity, Function, WorkerActivity

FUNCTION_COLUMNS = (
    "function", "progress", "done", "running", "waiting", "failed", "rate", "left", "time", "mean", "CPU", "memory",
)  # fmt: skip
WORKER_COLUMNS = ("pid", "process", "runs", "for", "CPU", "RSS", "own")
_BAR = 16
_NAMES_MAX = 3

# The orders that the key `s` goes through, and the sort key of each.
FUNCTION_SORTS: "dict[str, Callable[[Function], tuple[float, float] | float | str]]" = {
    "active": lambda each: (-(each.running + each.waiting), -each.total_s),
    "time": lambda each: -each.total_s,
    "memory": lambda each: -each.peak_bytes,
    "failures": lambda each: -each.failed,
    "name": lambda each: each.name,
}
WORKER_SORTS: "dict[str, Callable[[WorkerActivity], tuple[bool, float, int] | float]]" = {
    "start": lambda each: (each.who.kind != "driver", each.who.started_s, each.who.pid),
    "CPU": lambda each: -each.core_share,
    "memory": lambda each: -each.own_bytes,
    "longest": lambda each: min((call.start_s for call in each.calls), default=float("inf")),
}


def function_rows(activity: "Activity", sort: str) -> list[tuple[str, tuple[str, ...]]]:
    """Each function's name and its cells."""
    found = sorted(activity.functions, key=FUNCTION_SORTS[sort])
    return [(each.name, _function(each)) for each in found]


def _function(each: "Function") -> tuple[str, ...]:
    return (
        printable(each.name),
        bar(each.ended, each.total),
        f"{each.done:,}",
        f"{each.running:,}",
        f"{each.waiting:,}",
        f"{each.failed:,}" if each.failed else "",
        f"{each.rate:,.1f}/s" if each.rate >= 0.05 else "",
        in_words(each.left_s) if each.left_s is not None else "",
        in_words(each.total_s) if each.ended else "",
        _short(each.mean_s) if each.ended else "",
        in_words(each.cpu_s) if each.ended else "",
        in_units(each.peak_bytes) if each.peak_bytes else "",
    )


def worker_rows(activity: "Activity", sort: str) -> list[tuple[str, tuple[str, ...]]]:
    """Each process's id and its cells."""
    found = sorted(activity.workers, key=WORKER_SORTS[sort])
    return [(each.who.process_id, _worker(each, activity.at_s)) for each in found]


def _worker(each: "WorkerActivity", now: float) -> tuple[str, ...]:
    who = each.who
    what = f"driver {who.entrypoint}" if who.kind == "driver" else "worker"
    if who.actor_class:
        what = f"actor {who.actor_class}" + (f" {who.actor_name!r}" if who.actor_name else "")
    names = list(dict.fromkeys(call.name for call in each.calls))
    runs = ", ".join(names[:_NAMES_MAX]) + (", …" if len(names) > _NAMES_MAX else "")
    if len(each.calls) > 1:
        runs = f"{len(each.calls)} × {runs}"
    if each.silent:
        runs = f"{runs} (no answer)".strip()
    starts = [call.start_s for call in each.calls if call.start_s]
    return (
        str(who.pid),
        printable(what),
        printable(runs or ("" if who.kind == "driver" else "idle")),
        in_words(max(0.0, now - min(starts))) if starts else "",
        f"{each.core_share:.0%}",
        in_units(each.rss_bytes),
        in_units(each.own_bytes),
    )


def headline(name: str, activity: "Activity") -> str:
    """The lines above the tables: the machine, the store, what waits for resources."""
    memory, store, status = activity.memory, activity.store, activity.status
    used, total = memory.get("used_bytes", 0), memory.get("total_bytes", 0)
    in_store, limit = store.get("used_bytes", 0), store.get("limit_bytes", 0)
    running = sum(len(each.calls) for each in activity.workers)
    waiting = sum(each.waiting for each in activity.functions)
    failed = sum(each.failed for each in activity.functions)
    lines = [
        f"{printable(name)}  up {in_words(float(status.get('uptime_s', 0.0)))}  "
        f"{running:,} running, {waiting:,} waiting, {failed:,} failed",
        f"CPU {bar(activity.machine_share, 1.0)} {activity.machine_share:4.0%} of {activity.cores} cores   "
        f"memory {bar(used, total)} {in_units(used)} of {in_units(total)}   "
        f"objects {bar(in_store, limit)} {in_units(in_store)} of {in_units(limit)}",
    ]
    demands = status.get("pending", ())
    if demands:
        first = demands[0]
        lines.append(f"waits {in_words(float(first['waited_s']))}: {printable(str(first['why']))}")
    return "\n".join(lines)


def bar(part: float, whole: float) -> str:
    """A bar of block characters.

    >>> bar(1, 2)
    '████████        '
    """
    eighths = round(_BAR * 8 * min(1.0, part / whole)) if whole > 0 else 0
    full, rest = divmod(eighths, 8)
    return ("█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")).ljust(_BAR)


def _short(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.0f} ms" if seconds < 1 else in_words(seconds)
