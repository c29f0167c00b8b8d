"""`sundog timeline`: what ran where and when, as a Chrome trace or as a page of its own.

Owns the file that is written, and the reading of --from and --to; the trace is `observe.trace`, the page
`observe.timeline_page`. Runs in the terminal's process, main thread; it joins no session.
"""

import contextlib
import os
from collections.abc import Iterable

import click

from sundog.cli import exits, rows
from sundog.cli.sessions import opened, session_option

_EXAMPLES = rows.examples(
    ("sundog timeline", "writes timeline.json; open it at ui.perfetto.dev or chrome://tracing"),
    ("sundog timeline --html", "writes timeline.html, a page that needs nothing else"),
    ("sundog timeline --from 10 --to 12 -o part.json", "two seconds of it"),
    ("sundog timeline --session run.sundog --html", "of a file from a colleague"),
)


@click.command("timeline", short_help="Write a timeline, for a trace viewer or as a page.", epilog=_EXAMPLES)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="The file to write; by default timeline.json or timeline.html; - means stdout.",
)
@click.option(
    "--html", "is_page", is_flag=True, help="Write an HTML page that shows the timeline and needs no network."
)
@click.option(
    "--from",
    "from_",
    type=float,
    metavar="SECONDS",
    help="Start of the window, in seconds after the first event.",
)
@click.option(
    "--to", type=float, metavar="SECONDS", help="End of the window, in seconds after the first event."
)
@rows.address_option
@session_option
@rows.format_option(default="one line that says what was written")
def command(
    output: str | None,
    is_page: bool,
    from_: float | None,
    to: float | None,
    address: str | None,
    session: str | None,
    form: str,
) -> int:
    """Write a timeline of tasks, gets, puts and waits, spills, ends of processes, and how busy the machine was."""
    from sundog.cli.progress import bar
    from sundog.observe import unended
    from sundog.observe.index import opened as opened_index
    from sundog.observe.records import base_rows
    from sundog.observe.timeline_page import page
    from sundog.observe.trace import TraceWindow, pieces, session_bounds
    from sundog.observe.words import in_units

    if from_ is not None and to is not None and from_ >= to:
        raise click.UsageError(f"--from {from_:g} is not before --to {to:g}.")
    chosen = opened(session or (None if address == "auto" else address))
    target = output or ("timeline.html" if is_page else "timeline.json")
    with bar("reading the records") as progress, opened_index(chosen.path, progress) as index:
        low, high = session_bounds(index)
        if not high:
            raise exits.CommandError(
                f"the session {chosen.name} has recorded no tasks, so there is nothing to draw"
            )
        window = TraceWindow(low + (from_ or 0.0), low + to if to is not None else 1e12)
        count = index.one(f"SELECT count(*) FROM attempts a WHERE {window.attempts(index)}")
        running = sum((row.start_s or 0.0) <= window.to_s for row in unended.running(index, base_rows(index)))
        text: Iterable[str] = (
            [page(index, chosen.name, window)] if is_page else pieces(index, window, progress)
        )
        _write(target, text)
    if target != "-":
        size = os.path.getsize(target)
        facts = {"file": target, "tasks": count, "running": running, "seconds": round(high - low, 3)}
        facts["size_bytes"] = size
        if form == "default":
            viewer = "any browser" if is_page else "ui.perfetto.dev or chrome://tracing"
            more = f" and {running} that had not ended" if running else ""
            click.echo(f"{target}: {count:,} tasks{more}, {in_units(size)}. Open it with {viewer}.")
        else:
            rows.show([facts], form)
    return exits.OK


def _write(target: str, text: Iterable[str]) -> None:
    if target == "-":
        for each in text:
            click.echo(each, nl=False)
        return
    part = f"{target}.{os.getpid()}.part"
    try:
        with open(
            part, "x", encoding="utf-8"
        ) as file:  # in a shared folder another user may have put a link there
            file.writelines(text)
        os.replace(part, target)
    except OSError as error:
        raise exits.CommandError(f"{target} cannot be written: {error.strerror}") from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(part)
