"""`sundog top`: a live full-screen view of a running session.

Owns the checks before the screen opens; the view is `top_screen`. Runs in the terminal's process, main thread; it joins
no session.
"""

import importlib.util
import sys

import click

from sundog.cli import exits, rows
from sundog.cli.sessions import live_session_option, opened_live

_EXAMPLES = rows.examples(
    ("sundog top", "functions and processes of the newest session, every second"),
    ("sundog top --interval 5", "less often"),
)


@click.command("top", short_help="Watch functions, workers and the machine, live.", epilog=_EXAMPLES)
@click.option(
    "--interval",
    type=click.FloatRange(0.1),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two updates.",
)
@rows.address_option
@live_session_option
def command(interval: float, address: str | None, session: str | None) -> int:
    """Watch the functions of a running session, its processes and the machine, full screen.

    Keys: s sorts, tab goes to the other table, d shows the stacks of the process under the cursor, l what it printed, c
    cancels its task, k ends it, p pauses, q quits.
    """
    if importlib.util.find_spec("textual") is None:
        raise exits.CommandError(
            "`sundog top` needs textual, which is not installed: pip install 'sundog[top]'"
        )
    chosen = opened_live(session or address)
    if not sys.stdout.isatty():
        raise exits.CommandError("`sundog top` needs a terminal. Without one, use: sundog status -v")
    from sundog.cli.top_screen import Top

    Top(chosen, interval).run()
    return exits.OK
