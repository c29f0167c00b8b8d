"""`sundog demo`: run a small `import ray` program, then show what the recording says about it.

Owns the reading of the timeline into one line per function, and the advice that follows from the measured
overlap; both are pure (`summarise`, `advise`). The program is `demo_program`, the same file as
examples/demo.py. Runs in the terminal's process, main thread, in a session of its own that it ends.
"""

import importlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from sundog.cli import exits

if TYPE_CHECKING:
    from rich.table import Table

# Fewer calls than this, or less time in all, and the overlap says nothing about how the program is written.
MIN_CALLS = 3
MIN_BUSY_S = 0.02
# Under this many calls at a time on average, calls are as good as one after the other.
HARDLY_PARALLEL = 1.2


@dataclass(frozen=True)
class Summary:
    """What the calls of one function took together.

    `busy_s` adds up the calls; `span_s` is from the first start to the last end.
    """

    name: str
    calls: int
    busy_s: float
    span_s: float
    workers: int
    on_actor: bool = False

    @property
    def at_a_time(self) -> float:
        """How many calls ran at once, on average."""
        return self.busy_s / self.span_s if self.span_s else 0.0


def summarise(events: Iterable[Mapping[str, Any]]) -> list[Summary]:
    """One summary per function or method in a timeline, in the order of their first calls."""
    calls: dict[tuple[str, bool], list[tuple[float, float, object]]] = defaultdict(list)
    for event in events:
        # The other slices (phases, submissions, waits) lie inside these or belong to the driver.
        if event.get("ph") == "X" and event.get("cat") in ("task", "actor_task"):
            start_us = float(event["ts"])
            span = (start_us, start_us + float(event["dur"]), event["tid"])
            calls[str(event["name"]), event["cat"] == "actor_task"].append(span)
    summaries = []
    for (name, on_actor), spans in sorted(calls.items(), key=lambda item: min(item[1])[0]):
        first, last = min(start for start, _, _ in spans), max(end for _, end, _ in spans)
        busy_us = sum(end - start for start, end, _ in spans)
        workers = len({worker for _, _, worker in spans})
        summaries.append(Summary(name, len(spans), busy_us / 1e6, (last - first) / 1e6, workers, on_actor))
    return summaries


def advise(summary: Summary, cpus: int) -> str | None:
    """What would make these calls faster, with the time that it would save; None when nothing would.

    Args:
        summary: what was measured.
        cpus: how many calls the session could have run at once.
    """
    room = min(cpus, summary.calls)
    if room < 2 or summary.calls < MIN_CALLS or summary.busy_s < MIN_BUSY_S:
        return None
    if summary.at_a_time > HARDLY_PARALLEL:
        return None
    could_be = f"about {summary.busy_s / room:.2f} s instead of {summary.span_s:.2f} s on {room} CPUs"
    if summary.on_actor and summary.workers == 1:
        return (
            f"{summary.name}: all {summary.calls} calls went to one actor, which does one thing at a time. "
            f"With {room} actors: {could_be}."
        )
    return (
        f"{summary.name}: {summary.calls} calls, {summary.at_a_time:.1f} at a time: each result was awaited "
        f"before the next call was submitted. Submit them all, then get() the list: {could_be}."
    )


def make_table(summaries: Iterable[Summary]) -> "Table":
    """The summaries for the terminal."""
    from rich.table import Table

    table = Table("function", title="What ran (from the timeline)", title_justify="left")
    for heading in ("calls", "work s", "took s", "at a time", "workers"):
        table.add_column(heading, justify="right")
    for each in summaries:
        figures = (f"{each.busy_s:.2f}", f"{each.span_s:.2f}", f"{each.at_a_time:.1f}", str(each.workers))
        table.add_row(each.name, str(each.calls), *figures)
    return table


@click.command("demo", short_help="Run a small program and show what the recording says about it.")
@click.option(
    "--timeline",
    "timeline_path",
    type=click.Path(dir_okay=False),
    help="Also keep the timeline here, for chrome://tracing or ui.perfetto.dev.",
)
def command(timeline_path: str | None) -> int:
    """Run a small program that says `import ray`, and show what the recording says about it."""
    from rich.console import Console

    from sundog import api, compat, session_facts

    console = Console(highlight=False)
    console.print("The program (examples/demo.py) says:", style="bold")
    compat.install()
    try:
        importlib.import_module("sundog.cli.demo_program").main()
        cpus = int(session_facts.cluster_resources().get("CPU", 1))
        summaries = summarise(session_facts.timeline() or ())
        if timeline_path is not None:
            session_facts.timeline(filename=timeline_path)
    finally:
        api.shutdown()
        compat.uninstall()
    if not summaries:
        raise exits.CommandError(
            "the recording holds no task, though the demo ran some. Was record_enabled off?"
        )
    console.print(make_table(summaries))
    console.print("Advice:", style="bold")
    for line in filter(None, (advise(summary, cpus) for summary in summaries)):
        console.print(f"- {line}", markup=False)
    if timeline_path is not None:
        console.print(f"The timeline is in {timeline_path}: open it at ui.perfetto.dev", markup=False)
    return exits.OK
