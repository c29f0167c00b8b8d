"""`sundog capsule`: the capsules of tasks: listed, shown, sent to a colleague, opened.

Owns the question before a file of another user is opened, for that runs code. Runs in the terminal's process, main
thread.
"""

import contextlib
import os
import shutil
import time

import click

from sundog.cli import exits, rows
from sundog.cli.sessions import session_option
from sundog.printable import printable

_EXAMPLES = rows.examples(
    ("sundog capsule list", "the capsules of all sessions, the newest first"),
    ("sundog capsule export ID task.capsule", "one as a file, to send"),
    ("sundog capsule open task.capsule --pdb", "run one that was sent to you; asks first"),
)


@click.group("capsule", short_help="List, export and open the capsules of tasks.", epilog=_EXAMPLES)
def command() -> None:
    """List, export and open capsules: one task each, with all that is needed to run it again."""


@command.command("list")
@session_option
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="List at most so many capsules, the newest first.",
)
def list_capsules(session: str | None, limit: int) -> int:
    """List capsules, the newest first."""
    from sundog.capsules import store
    from sundog.cli.sessions import opened
    from sundog.observe.sessions import all_sessions

    paths = [each.path for each in all_sessions()] if session is None else [opened(session).path]
    found = [each.header for path in paths for each in store.capsules_of(path)]
    if not found:
        click.echo(
            "There are no capsules. A task that fails leaves one; sundog capture FUNCTION keeps one of every run."
        )
        return exits.OK
    rows.show_table(
        [
            {
                "when": time.strftime("%m-%d %H:%M:%S", time.localtime(each.made_s)),
                "name": each.name,
                "attempt": each.attempt + 1,
                "outcome": f"{each.outcome.error or 'returned'}: {each.outcome.text}".rstrip(": ")[:60],
                "place": os.path.basename(each.outcome.place.partition(" ")[0] or each.source),
                "size": f"{each.size_bytes / 1024:.0f} KiB",
                "task": each.task_id,
            }
            for each in sorted(found, key=lambda each: each.made_s, reverse=True)[:limit]
        ],
        numbered=False,
    )
    return exits.OK


def _copy(capsule: str, target: str) -> None:
    """Copy a capsule into a new file, for this user alone, that takes the place of what is there.

    In a shared folder another user may have put something under that name: a file of their own, or a second name of a
    file of this user's. It is neither written to nor read.
    """
    part = f"{target}.{os.getpid()}.part"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(part, flags, 0o600), "wb") as out, open(capsule, "rb") as source:
            shutil.copyfileobj(source, out)
        os.replace(part, target)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(part)


@command.command("export")
@click.argument("task", metavar="ID|FUNCTION")
@click.argument("file", type=click.Path(dir_okay=False))
@session_option
def export(task: str, file: str, session: str | None) -> int:
    """Copy a capsule into a file. A capsule holds the arguments of the task: look before you send it."""
    from sundog.cli.replay import choose

    found = choose(task, session)
    if found is None:
        raise exits.CommandError(f"there is no capsule of {task}. See: sundog capsule list")
    path, header = found
    try:
        _copy(path, file)
    except OSError as error:
        raise exits.CommandError(f"{file} cannot be written: {error.strerror}.") from None
    click.echo(f"{file}: {printable(header.name)}, {os.path.getsize(file) / 1024:.0f} KiB.")
    click.echo(
        "It holds the arguments and the environment of the task; variables that look like secrets are left out."
    )
    return exits.OK


@command.command("open")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--pdb", "with_pdb", is_flag=True, help="Start pdb at the line that raises.")
@click.option(
    "--edit", is_flag=True, help="Open the source of the function in $EDITOR first, then run the edited code."
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def open_capsule(file: str, with_pdb: bool, edit: bool, yes: bool) -> int:
    """Run the task of a capsule file. Asks first: the maker of the file decides what runs."""
    from sundog.capsules.rows import read_header
    from sundog.cli.replay import play, show_header

    header = read_header(file)
    if not yes:
        show_header(header)
        click.echo(f"Opening {file} runs the code that is in it, with your rights, on this machine.")
        if not _is_trusted():
            click.echo("Nothing was run.")
            return exits.FAILED
    return play(file, header, with_pdb=with_pdb, edit=edit, is_shown=not yes)


def _is_trusted() -> bool:
    try:
        return click.confirm("Do you trust the person who made it?", default=False)
    except click.Abort as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise
        click.echo()
        raise exits.CommandError(
            "the question was not answered, so nothing was run. To run without the question, add --yes"
        ) from None
