"""Rows of the state API on a terminal: as a table, as JSON, as YAML; and the options that choose them.

Owns the formats and the reading of `--filter`. A table on a terminal may wrap its cells; piped, it is one row a line.
Pure but for `show`, which prints. Runs in the terminal's process, main thread.
"""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import click

from sundog.cli import exits
from sundog.printable import printable

RESOURCES = (
    "actors",
    "cluster-events",
    "jobs",
    "nodes",
    "objects",
    "placement-groups",
    "runtime-envs",
    "tasks",
    "workers",
)
_PIPE_WIDTH = 100_000
_PLAIN = re.compile(r"[A-Za-z_/][\w./-]*( [\w./-]+)*")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "nan"})
_FILTER = re.compile(r"\s*([\w-]+)\s*(!?=)\s*(.*?)\s*")

address_option = click.option(
    "--address", metavar="ADDRESS", help="Which session; by default the newest of this machine."
)
timeout_option = click.option(
    "--timeout", type=int, default=30, metavar="SECONDS", help="How long to wait for an answer."
)


def examples(*lines: tuple[str, str]) -> str:
    """The end of a help page: commands to type, with what each shows.

    >>> print(*examples(("sundog list tasks", "all tasks")).splitlines()[1:], sep="\\n")
    Examples:
      sundog list tasks  # all tasks
    """
    width = max(len(command) for command, _ in lines)
    shown = (f"  {command.ljust(width)}  # {what}" for command, what in lines)
    return "\n".join(("\b", "Examples:", *shown))


def format_option(*, default: str) -> Callable[..., Any]:
    """`--format`, with the format that is used without it, and `--json` for short."""
    choice = click.option(
        "--format",
        "form",
        type=click.Choice(["default", "table", "json", "yaml"]),
        default="default",
        help=f"How to show it; by default as {default}.",
    )

    def as_json(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
        if wanted:
            ctx.params["form"] = "json"

    # Not eager: it is called after --format has been read, and wins.
    flag = click.option(
        "--json", is_flag=True, expose_value=False, callback=as_json, help="The same as --format json."
    )
    return lambda function: choice(flag(function))


def parse_filter(text: str) -> tuple[str, str, str]:
    """`state=ALIVE` or `state!=ALIVE` as a filter of the state API.

    >>> parse_filter("name != f")
    ('name', '!=', 'f')
    """
    found = _FILTER.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"{text!r} is neither key=value nor key!=value", param_hint="--filter")
    key, predicate, value = found.groups()
    return key.lower().replace("-", "_"), predicate, value.strip("'\"")


def show(rows: Sequence[dict[str, object]], form: str) -> None:
    """Print rows in a format."""
    if form == "json":
        click.echo(json.dumps(rows, default=str, indent=2))
    elif form == "yaml":
        click.echo(as_yaml(rows), nl=False)
    else:
        show_table(rows)


def show_table(rows: Sequence[dict[str, object]], *, numbered: bool = True) -> None:
    """Print rows as a table, with a number before each unless that is not wanted."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not rows:
        return
    table = Table(*([""] if numbered else []), *rows[0], box=None)
    for number, row in enumerate(rows):
        cells = ["" if value is None else printable(str(value)) for value in row.values()]
        table.add_row(*([str(number)] if numbered else []), *[Text(cell) for cell in cells])
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_PIPE_WIDTH)
    console.print(table)


def as_yaml(rows: Sequence[dict[str, object]]) -> str:
    """Rows as a YAML list; what is nested in a column stands on one line, for JSON is YAML too.

    >>> print(as_yaml([{"name": "f", "n": 1, "held": {"CPU": 1.0}, "why": None}]), end="")
    ---
    - name: f
      n: 1
      held: {"CPU": 1.0}
      why: null
    ...
    """
    lines = ["---"]
    for row in rows:
        for number, (key, value) in enumerate(row.items()):
            lines.append(f"{'  ' if number else '- '}{key}: {_yaml_value(value)}")
    return "\n".join([*lines, "..."]) + "\n"


def _yaml_value(value: object) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value, default=str)


def resource_argument(known: Sequence[str] = RESOURCES) -> Callable[..., Any]:
    """The resource that a command is about; underscores do as well."""

    def checked(_ctx: click.Context, _param: click.Parameter, given: str) -> str:
        name = given.replace("_", "-")
        if name not in known:
            raise click.BadParameter(f"{given!r} is none of: {', '.join(known)}")
        return name.replace("-", "_")

    return click.argument("resource", callback=checked, metavar=f"[{'|'.join(known)}]")


def asked(call: Callable[[], object]) -> Any:
    """What the state API answers; its errors are the command's."""
    from sundog.cli.progress import bar
    from sundog.observe import index
    from sundog.util.state.exception import RayStateApiException, ServerUnavailable

    try:
        with bar("reading the records") as progress:
            index.progress = progress
            return call()
    except ServerUnavailable:
        raise exits.NoSession from None
    except RayStateApiException as error:
        raise exits.CommandError(str(error)) from None
    finally:
        index.progress = index.no_progress  # the bar has ended: drawn on, it would never be stopped
