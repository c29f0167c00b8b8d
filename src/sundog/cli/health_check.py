"""`sundog health-check`: whether a session answers, as an exit code for scripts and probes.

Owns the flags, which are Ray's. Runs in the terminal's process, main thread; it joins no session.
"""

import click

from sundog.cli import exits, rows

_EXAMPLES = rows.examples(
    ("sundog health-check && echo it answers", "the newest session"),
    ("sundog health-check --session NAME", "this one; sundog session list shows the names"),
)


@click.command("health-check", short_help="Exit with 0 if a session answers.", epilog=_EXAMPLES)
@click.option("--address", help="The session's address; by default the newest running session.")
@click.option(
    "--skip-version-check",
    is_flag=True,
    help="Accepted without effect: session and command always have the same version.",
)
@click.option("--session", help="The session's name.")
def command(address: str | None, skip_version_check: bool, session: str | None) -> int:
    """Exit with 0 if a session answers, with 3 if there is none, with 4 if it does not answer.

    Prints nothing if the session answers, else one sentence on stderr.
    """
    from sundog.engines import sessions
    from sundog.wire.requests import Status

    try:
        found = sessions.resolve(session or address or "auto")
    except ConnectionError:
        raise exits.NoSession from None
    sessions.request(found, Status())
    return exits.OK
