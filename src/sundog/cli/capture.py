"""`sundog capture`: have every run of a function leave a capsule, in a running session.

Owns nothing but the question to the node. Runs in the terminal's process, main thread.
"""

import difflib
import sqlite3

import click

from sundog.cli import exits, rows
from sundog.cli.sessions import live_session_option, opened_live
from sundog.wire.requests import Capture

_EXAMPLES = rows.examples(
    ("sundog capture resize", "every run of resize() leaves a capsule from now on"),
    ("sundog capture Model.step", "every call of this method"),
    ("sundog capture --off", "no longer"),
)


@click.command("capture", short_help="Keep a capsule of each run of a function.", epilog=_EXAMPLES)
@click.argument("function", nargs=-1)
@click.option("--off", is_flag=True, help="Stop the capture for these functions, or for all.")
@live_session_option
def command(function: tuple[str, ...], off: bool, session: str | None) -> int:
    """Keep a capsule of every run of a function in a running session, also of runs that succeed.

    Capsules beyond the limits of the session are removed, the oldest first. `sundog replay` runs a capsule again.
    """
    if not function and not off:
        raise click.UsageError("give the name of a function, or Class.method.")
    chosen = opened_live(session)
    names = chosen.ask(Capture(list(function), not off))
    click.echo(
        f"Every run leaves a capsule: {', '.join(names)}." if names else "Only failures leave a capsule."
    )
    if not off:
        _tell_of_unknown(function, chosen.path)
    return exits.OK


def _tell_of_unknown(function: tuple[str, ...], path: str) -> None:
    """A function may run for the first time later; but its name may also be misspelt."""
    from sundog.observe.index import opened

    try:
        with opened(path) as index:
            known = [str(name) for (name,) in index.rows("SELECT DISTINCT text FROM names WHERE text != ''")]
    except (OSError, sqlite3.Error):
        return  # without records there is nothing to compare with
    for name in function:
        if name in known:
            continue
        close = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {close[0]}? Then: sundog capture {close[0]}" if close else ""
        click.echo(f"sundog: no task of the session is called {name} so far.{hint}", err=True)
