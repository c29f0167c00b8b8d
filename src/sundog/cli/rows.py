"""Rows of the state API on a terminal: as a table, as JSON, as YAML; and the options that choose them.

Owns the formats and the reading of `--filter`. A table on a terminal may wrap its cells; piped, it is one row a line.
Pure but for `show`, which prints. Runs in the terminal's process, main thread.
"""

import json
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from sundog.cli import exits
from sundog.printable import printable

if TYPE_CHECKING:
    from typing import Protocol, TypeVar

    T = TypeVar("T")
    F = TypeVar("F", bound=Callable[..., object])

    class Decorator(Protocol):
        """What adds an option or an argument to a command."""

        def __call__(self, command: F, /) -> F: ...


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
# The most informative columns after the first: a narrow terminal shows as many as fit.
_TELLING = (
    "object", "name", "class_name", "state", "state_counts", "size", "object_size", "call site", "call_site", "kind",
    "reference_type", "worker_pid", "pid", "error_type", "exit_type", "status", "task_status", "age", "attempt_number",
)  # fmt: skip
_TEXT_WIDTH = 28  # the least width of a column of sentences or paths, which wraps
_PLAIN = re.compile(r"[A-Za-z_/][\w./-]*( [\w./-]+)*")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "nan"})
_FILTER = re.compile(r"\s*([\w-]+)\s*(!?=)\s*(.*?)\s*")

address_option = click.option(
    "--address",
    metavar="ADDRESS",
    help="The address of the session; by default the newest session of this machine.",
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


def format_option(*, default: str) -> "Decorator":
    """`--format`, with the format that is used without it, and `--json` for short."""
    choice = click.option(
        "--format",
        "form",
        type=click.Choice(["default", "table", "json", "yaml"]),
        default="default",
        help=f"The format of the output; by default {default}.",
    )

    def as_json(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
        if wanted:
            ctx.params["form"] = "json"

    # Not eager: evaluated after --format, so this flag wins.
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
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_PIPE_WIDTH)
    cells = {
        name: ["" if row[name] is None else printable(str(row[name])) for row in rows] for name in rows[0]
    }
    if numbered:
        cells = {"": [str(number) for number in range(len(rows))], **cells}
    widths = {name: _least_width(name, column) for name, column in cells.items()}
    fitting = fitting_columns(widths, console.width)
    table = Table(box=None)
    for name in fitting:
        table.add_column(name, min_width=widths[name], no_wrap=not _breaks(cells[name]))
    for line in zip(*(cells[name] for name in fitting)):
        table.add_row(*map(Text, line))
    console.print(table)
    if len(fitting) < len(cells):
        rest = ", ".join(name for name in cells if name not in fitting)
        click.echo(f"Not shown in a terminal this narrow: {rest}. Piped, or with --json, all are.", err=True)


def fitting_columns(widths: dict[str, int], width: int) -> list[str]:
    """Which columns a terminal has room for, in their order: the first one always, then those that say most.

    >>> fitting_columns({"task_id": 32, "job_id": 8, "state": 9}, 50)
    ['task_id', 'state']
    """
    names = list(widths)
    always = names[:2] if names[0] == "" else names[:1]
    order = always + [name for name in _TELLING if name in widths and name not in always]
    order += [name for name in names if name not in order]
    taken, left = set(), width
    for name in order:
        if name in always or widths[name] + 2 <= left:
            taken.add(name)
            left -= widths[name] + 2
    return [name for name in names if name in taken]


def _breaks(column: list[str]) -> bool:
    """Whether a column is one of sentences, paths or lists, whose lines may be broken; an id is to be copied whole."""
    return any(" " in cell or "/" in cell for cell in column)


def _least_width(name: str, column: list[str]) -> int:
    natural = max(len(line) for cell in [name, *column] for line in (cell.splitlines() or [""]))
    return min(natural, _TEXT_WIDTH) if _breaks(column) else natural


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


def resource_argument(known: Sequence[str] = RESOURCES) -> "Decorator":
    """The resource that a command is about; underscores do as well."""

    def checked(_ctx: click.Context, _param: click.Parameter, given: str) -> str:
        name = given.replace("_", "-")
        if name not in known:
            raise click.BadParameter(f"{given!r} is none of: {', '.join(known)}")
        return name.replace("-", "_")

    return click.argument("resource", callback=checked, metavar="RESOURCE")


def asked(call: "Callable[[], T]") -> "T":
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
        index.progress = index.no_progress  # the bar has ended: drawn again, it would never be stopped
