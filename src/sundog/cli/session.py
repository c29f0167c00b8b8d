"""`sundog session list|show|export`: the sessions of this machine, running and ended, and one of them as a file.

Owns the pages; finding and packing are `observe.sessions` and `observe.packed`. Runs in the terminal's process, main
thread; it joins no session.
"""

import os
import time
from typing import TYPE_CHECKING

import click

from sundog.cli import exits, rows
from sundog.cli.sessions import opened, session_option
from sundog.observe.desks import has_desk

if TYPE_CHECKING:
    from sundog.observe.sessions import Opened

_EXAMPLES = rows.examples(
    ("sundog session list", "every session, the newest first"),
    ("sundog session show", "the folder of the newest one, and what is in it"),
    ("sundog session export run.sundog", "the newest one as a file for a colleague"),
    ("sundog list tasks --session run.sundog", "what the colleague types"),
)


@click.group(
    "session", short_help="List sessions, running and ended; pack one into a file.", epilog=_EXAMPLES
)
def command() -> None:
    """List sessions, running and ended; pack one into a file."""


@command.command("list")
@rows.format_option(default="a table")
def list_(form: str) -> int:
    """List the sessions of this user on this machine, the newest first."""
    from sundog.observe import sessions

    found = [_facts(each) for each in sessions.all_sessions()]
    if not found and form in ("default", "table"):
        click.echo("There are no sessions.")
        return exits.OK
    rows.show(found, "table" if form == "default" else form)
    return exits.OK


@command.command("show")
@session_option
@rows.format_option(default="YAML")
def show(session: str | None, form: str) -> int:
    """Show where a session is and how much it has recorded."""
    rows.show([_facts(opened(session))], "yaml" if form == "default" else form)
    return exits.OK


@command.command("export")
@click.argument("file")
@session_option
def export(file: str, session: str | None) -> int:
    """Pack a session's records and logs into FILE; every command opens it with --session FILE.

    The file has what tasks printed, the names of functions and the texts of errors. The file has no objects and no
    arguments.
    """
    import sundog
    from sundog.cli.progress import bar
    from sundog.observe import packed
    from sundog.observe.words import in_units

    chosen = opened(session)
    try:
        with bar(f"packing {chosen.name}") as progress:
            size = packed.pack(chosen.name, chosen.path, file, sundog.__version__, progress)
    except OSError as error:
        raise exits.CommandError(f"{file} cannot be written: {error.strerror or error}") from None
    click.echo(f"{file}: {in_units(size)}. Look at it with: sundog list tasks --session {file}")
    return exits.OK


def _facts(each: "Opened") -> dict[str, object]:
    began = each.name.removeprefix("session_")[:19]
    size = files = 0
    newest = 0.0
    for folder, _, names in os.walk(each.path):
        for name in names:
            try:
                info = os.lstat(os.path.join(folder, name))
            except OSError:
                continue
            size, files, newest = size + info.st_blocks * 512, files + 1, max(newest, info.st_mtime)
    return {
        "name": each.name,
        "state": "RUNNING" if each.is_live or has_desk(each.path) else "ENDED",
        "began": f"{began[:10]} {began[11:].replace('-', ':')}",
        "last_written": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(newest)),
        "node_pid": each.info.node_pid if each.info is not None else None,
        "size_bytes": size,
        "files": files,
        "path": each.path,
    }
