"""`sundog demo`: run a small `import ray` program, then show what the recording says about it.

Owns the reading of the timeline into one line per function (`summarise`, pure); the advice is the doctor's, in short
(`sundog.advice`). The program is `demo_program`, the same file as examples/demo.py.
Runs in the terminal's process, main thread, in a session of its own that it ends.
"""

import os
import runpy
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from sundog.cli import exits, rows

if TYPE_CHECKING:
    from rich.table import Table

    from sundog.plain import JsonObject


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


def summarise(events: Iterable["JsonObject"]) -> list[Summary]:
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


_EXAMPLES = rows.examples(
    ("sundog demo", "the program, its timeline in short, and advice"),
    ("sundog demo --timeline demo.json", "the whole timeline in a file too"),
)


@click.command(
    "demo", short_help="Run a small program and show what the recording says about it.", epilog=_EXAMPLES
)
@click.option(
    "--timeline",
    "timeline_path",
    type=click.Path(dir_okay=False),
    help="Write the timeline to this file too, for chrome://tracing or ui.perfetto.dev.",
)
def command(timeline_path: str | None) -> int:
    """Run a small program that says `import ray`, and show what the recording says about it."""
    from rich.console import Console

    from sundog import api, compat, session_facts
    from sundog.advice.doctor import examine_session
    from sundog.observe.sessions import open_session
    from sundog.owner import context

    console = Console(highlight=False)
    program = os.path.join(os.path.dirname(__file__), "demo_program.py")
    console.print(f"The program ({program}) prints:", style="bold", soft_wrap=True)
    compat.install()
    try:
        # As a user's program, not as a part of sundog: its lines are what the advice names.
        runpy.run_path(program, run_name="demo")["main"]()
        session = str(context.facts.session["path"])
        summaries = summarise(session_facts.timeline() or ())
        if timeline_path is not None:
            session_facts.timeline(filename=timeline_path)
    finally:
        api.shutdown()
        compat.uninstall()
    if not summaries:
        raise exits.CommandError(
            "the demo ran tasks, but the recording has none of them. Is the setting record_enabled off?"
        )
    console.print(make_table(summaries))
    console.print("Advice:", style="bold")
    for line in examine_session(open_session(session)).brief():
        console.print(f"- {line}", markup=False, soft_wrap=True)
    console.print("The whole report: sundog doctor", style="dim")
    if timeline_path is not None:
        console.print(f"The timeline is in {timeline_path}: open it at ui.perfetto.dev", markup=False)
    return exits.OK
