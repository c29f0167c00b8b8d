"""`sundog break`: breakpoints in a running session, without an edit of the program.

Owns the check of what was asked; the watching is `debugging.triggers`, in every worker. Runs in the terminal's
process, main thread; it joins no session.
"""

import ast
import os

import click

from sundog.cli import exits, rows
from sundog.wire.requests import AddTrigger, ClearTriggers, ListTriggers

_EXAMPLES = rows.examples(
    ('sundog break f.py:41 --when "x > 3"', "stop at line 41 when x is large"),
    ("sundog break --on-exception ValueError", "stop where a ValueError is raised"),
    ("sundog break f.py:41 --attempt 2", "stop only when the task is tried again"),
    ("sundog break 'In[6]:2'", "stop at a line of a cell of IPython"),
    ("sundog break --list", "what is set"),
    ("sundog break --clear 1", "remove number 1; without a number, all"),
)


@click.command("break", short_help="Set a breakpoint in a running session.", epilog=_EXAMPLES)
@click.argument("place", required=False, metavar="[FILE[:LINE]]")
@click.option(
    "--when",
    default="",
    metavar="EXPRESSION",
    help="Pause only if this expression is true, with the variables at that line.",
)
@click.option(
    "--on-exception",
    "exception",
    default="",
    metavar="CLASS",
    help="Pause where an exception of this class is raised.",
)
@click.option(
    "--attempt",
    type=click.IntRange(min=1),
    default=None,
    help="Pause only in this attempt of a task; 1 is the first.",
)
@click.option("--list", "only_list", is_flag=True, help="List the breakpoints that are set.")
@click.option("--clear", is_flag=True, help="Remove the breakpoints with these numbers, or all.")
@rows.address_option
def command(
    place: str | None,
    when: str,
    exception: str,
    attempt: int | None,
    only_list: bool,
    clear: bool,
    address: str | None,
) -> int:
    """Set a breakpoint in a running session, without an edit of the program.

    The breakpoint holds in every worker, also in workers that start later. A task that reaches it is paused, and
    `sundog debug` attaches to the task. Without breakpoints, tasks run at full speed.
    """
    from sundog.debugging.triggers import is_cell
    from sundog.util.state.source import find_source
    from sundog.wire.pauses import Trigger

    source = rows.asked(lambda: find_source(address))
    if clear:
        gone = source.ask(ClearTriggers([] if place is None else _numbers(place)))
        click.echo(
            f"Removed: {', '.join(map(str, gone))}."
            if gone
            else "Nothing was removed. See: sundog break --list"
        )
        return exits.OK
    if only_list:
        found = source.ask(ListTriggers())
        for each in found:
            click.echo(f"{each.number:>3}  {each.text()}")
        if not found:
            click.echo("No breakpoint is set.")
        return exits.OK
    path, line = parse_place(place or "")
    if not line and not exception:
        raise click.UsageError("give a place: FILE:LINE, or --on-exception CLASS.")
    if exception and not all(each.isidentifier() for each in exception.split(".")):
        raise click.UsageError(
            f"--on-exception takes the name of a class, such as ValueError, not {exception!r}."
        )
    if when:
        _check_expression(when)
    number = source.ask(AddTrigger(Trigger(0, path, line, when, exception, attempt or 0)))
    click.echo(
        f"Breakpoint {number} is set: {Trigger(number, path, line, when, exception, attempt or 0).text()}"
    )
    if path and not os.path.isfile(path) and not is_cell(path):
        click.echo(
            f"There is no {path} in this folder: the breakpoint holds in every file of that name that a worker runs."
        )
    if line and os.path.isfile(path) and not in_function(path, line):
        click.echo(
            f"Line {line} is in no function, so it runs where the file is imported: a task stops there only if it "
            "imports the file for the first time. The program itself is not watched."
        )
    click.echo("A task that reaches the breakpoint is paused. Attach with: sundog debug --wait 60")
    return exits.OK


def parse_place(place: str) -> tuple[str, int]:
    """FILE:LINE into its parts; a file that is here gets its whole path, and the line must hold code.

    Raises:
        UsageError: the line is no number, or holds no code.
    """
    from sundog.debugging.triggers import is_cell

    path, colon, number = place.rpartition(":")
    if not colon:
        path, number = place, ""
    if number and not number.isdecimal():
        raise click.UsageError(
            f"{place!r} is not a place in the code. Write FILE:LINE, where LINE is a number."
        )
    line = int(number or 0)
    if path and os.path.isfile(path):
        path = os.path.abspath(path)
        if line:
            _check_line(path, line)
    elif path and os.path.isabs(path) and not is_cell(path):
        raise click.UsageError(f"there is no file {path}.")
    return path, line


def _check_line(path: str, line: int) -> None:
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    try:
        lines = _code_lines(compile(text, path, "exec"))
    except (SyntaxError, ValueError):
        return
    if line not in lines:
        later = min((each for each in lines if each > line), default=None)
        hint = f" The next line that does is {later}." if later else ""
        raise click.UsageError(f"line {line} of {path} holds no code that runs.{hint}")


def in_function(path: str, line: int) -> bool:
    """Whether a line of a file is in the body of a function; true as well if that cannot be told."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            tree = ast.parse(file.read())
    except (SyntaxError, ValueError):
        return True
    bodies = (
        each.body
        for each in ast.walk(tree)
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    )
    parts = (part for body in bodies for part in (body if isinstance(body, list) else [body]))
    return any(part.lineno <= line <= (part.end_lineno or line) for part in parts)


def _code_lines(code: object) -> set[int]:
    from types import CodeType

    assert isinstance(code, CodeType)
    lines = {line for _, _, line in code.co_lines() if line is not None}
    for each in code.co_consts:
        if isinstance(each, CodeType):
            lines |= _code_lines(each)
    return lines


def _check_expression(when: str) -> None:
    try:
        compile(when, "--when", "eval")
    except SyntaxError as error:
        raise click.UsageError(f"--when {when!r} is not an expression: {error.msg}.") from None


def _numbers(text: str) -> list[int]:
    if not all(each.isdecimal() for each in text.split(",")):
        raise click.UsageError(f"--clear takes the numbers of `sundog break --list`, not {text!r}.")
    return [int(each) for each in text.split(",")]
