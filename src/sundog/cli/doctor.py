"""`sundog doctor`: what kept a run from being faster, what to change, and what it would take then.

Owns the page; the examination is `sundog.advice`. Exit codes: 0, also when something was found; with `--fail-over` 1
if a finding gains more than that share of the run. Runs in the terminal's process, main thread; it joins no session.
"""

import json
import sys
from typing import TYPE_CHECKING

import click

from sundog.cli import exits, rows
from sundog.cli.sessions import opened, session_option

if TYPE_CHECKING:
    from sundog.advice.report import DoctorReport

_EXAMPLES = rows.examples(
    ("sundog doctor", "the newest session, running or ended"),
    ("sundog run --doctor train.py", "run a program, then examine it"),
    ("sundog doctor --session run.sundog --json", "a file from a colleague, for a program to read"),
    ("sundog doctor --fail-over 20%", "in CI: fail if a change would make it a fifth faster"),
)


class _Share(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    name = "share"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """`20%` or `0.2` as a number."""
        text = str(value).strip()
        try:
            share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
        except ValueError:
            self.fail(f"{text!r} is not a share: write 20% or 0.2.", param, ctx)
        if not 0 <= share <= 1:
            self.fail(f"{text!r} is not between 0 and 100 %.", param, ctx)
        return share


@click.command(
    "doctor", short_help="Show what kept a run from being faster, and what to change.", epilog=_EXAMPLES
)
@session_option
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.option(
    "--fail-over",
    type=_Share(),
    metavar="SHARE",
    help="Exit with 1 if a finding would make the run shorter by more than this share.",
)
def command(session: str | None, as_json: bool, fail_over: float | None) -> int:
    """Examine a session: its critical path, its parallelism, and each fault with its line, its cost, the change to
    make, and the time that the run would take then. Predictions come from playing the recorded run in a simulator.
    """
    from sundog.advice.doctor import examine_session
    from sundog.cli.progress import bar

    chosen = opened(session)
    with bar("reading the records") as progress:
        report = examine_session(chosen, progress)
    show(report, as_json=as_json)
    worst = max((each.gain_s / report.length_s for each in report.findings), default=0.0)
    return exits.FAILED if fail_over is not None and worst > fail_over else exits.OK


def show(report: "DoctorReport", *, as_json: bool = False) -> None:
    """Print a report: as JSON, plain where it is piped, or for a terminal."""
    if as_json:
        click.echo(json.dumps(report.as_dict(), indent=2))
    elif sys.stdout.isatty():
        from rich.console import Console

        Console(highlight=False).print(report.rich())
    else:
        click.echo(str(report))
