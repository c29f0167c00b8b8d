"""`sundog why [ID|NAME]`: why a task waits, is slow, failed, or why an actor, process, object or job is as it is.

Owns the page; facts are `observe.why_facts`, the reasoning `observe.why`. Runs in the terminal's process, main thread;
it joins no session.
"""

from typing import TYPE_CHECKING

import click

from sundog.cli import exits, rows
from sundog.cli.sessions import opened, session_option
from sundog.printable import printable

if TYPE_CHECKING:
    from sundog.observe.troubles import Trouble
    from sundog.observe.why import Story

_EXAMPLES = rows.examples(
    ("sundog why", "the most interesting trouble of the newest session"),
    ("sundog why 3f2a9c01…", "one task, actor, object, worker or job, by its id or the beginning of it"),
    ("sundog why resize", "the most telling task of a function, or an actor by its name"),
    ("sundog why 4711 --session run.sundog", "a process by its pid, in a file from a colleague"),
)


@click.command("why", short_help="Explain why something waits, is slow, failed or died.", epilog=_EXAMPLES)
@click.argument("what", required=False, metavar="[ID|PID|NAME]")
@session_option
@rows.format_option(default="a few lines")
def command(what: str | None, session: str | None, form: str) -> int:
    """Explain why something waits, is slow, failed or died: one chain down to the first cause, and what to do next."""
    from sundog.cli.progress import bar
    from sundog.observe import troubles
    from sundog.observe.index import opened as opened_index
    from sundog.observe.why import explain
    from sundog.observe.why_facts import Gatherer, Unknown

    chosen = opened(session)
    others: list[Trouble] = []
    with bar("reading the records") as progress, opened_index(chosen.path, progress) as index:
        gatherer = Gatherer(chosen, index)
        try:
            if what is None:
                others = troubles.find(gatherer)
                story = (
                    explain(gatherer.find(others[0].id)) if others else troubles.story_of_nothing(gatherer)
                )
            else:
                story = explain(gatherer.find(what))
        except Unknown as error:
            raise exits.CommandError(str(error)) from None
        missed = index.missed()
    if form != "default":
        rows.show([_as_row(story, others)], form)
        return exits.OK
    _show(story, others)
    if missed:
        click.echo(f"({missed} events are missing from these records)")
    return exits.OK


def _as_row(story: "Story", others: "list[Trouble]") -> dict[str, object]:
    return {
        "subject": story.subject,
        "verdict": story.verdict,
        "because": list(story.because),
        "next": list(story.next),
        "troubles": [{"text": each.text, "id": each.id} for each in others],
    }


def _show(story: "Story", others: "list[Trouble]") -> None:
    click.echo(f"{printable(story.subject)} {printable(story.verdict)}")
    for step in story.because:
        click.echo(
            f"  because {printable(step)}" if step is story.because[0] else f"          {printable(step)}"
        )
    for each in story.next:
        click.echo(f"  next: {printable(each)}")
    if len(others) > 1:
        click.echo("Also:")
        for other in others[1:]:
            click.echo(f"  {printable(other.text)}: sundog why {other.id}")
