"""`sundog capture`: have every run of a function leave a capsule, in a running session.

Owns nothing but the question to the node. Runs in the terminal's process, main thread.
"""

import click

from sundog.cli import exits, rows
from sundog.cli.sessions import opened_live, session_option
from sundog.wire.requests import Capture

_EXAMPLES = rows.examples(
    ("sundog capture resize", "every run of resize() leaves a capsule from now on"),
    ("sundog capture Model.step", "every call of this method"),
    ("sundog capture --off", "no longer"),
)


@click.command("capture", short_help="Have runs of a function leave capsules.", epilog=_EXAMPLES)
@click.argument("function", nargs=-1)
@click.option("--off", is_flag=True, help="Stop the capture for these functions, or for all.")
@session_option
def command(function: tuple[str, ...], off: bool, session: str | None) -> int:
    """Have every run of a function leave a capsule, also if it succeeds, in a running session.

    The quota of the session holds: the oldest capsules go first. `sundog replay` runs one again.
    """
    if not function and not off:
        raise click.UsageError("say which function: its name, or Class.method.")
    names = opened_live(session).ask(Capture(list(function), not off))
    click.echo(
        f"Every run leaves a capsule: {', '.join(names)}." if names else "Only failures leave a capsule."
    )
    return exits.OK
