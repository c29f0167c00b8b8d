"""`sundog stop`: end sessions on this machine, all of them unless one is named.

Owns which sessions are meant and what is reported; the ending itself is `engines.sessions.stop_session`.
Finding nothing to stop is success: the state asked for is the state there is. Runs in the terminal's
process, main thread.
"""

import click

from sundog.cli import exits


@click.command("stop", short_help="Stop the sessions on this machine.")
@click.option("-f", "--force", is_flag=True, help="Kill at once instead of asking first.")
@click.option(
    "-g",
    "--grace-period",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a session may take to end by itself before it is killed.",
)
@click.option("--session", metavar="NAME", help="Only this one.")
@click.option("--temp-dir", type=click.Path(file_okay=False), help="Where sessions keep their files.")
def command(force: bool, grace_period: float, session: str | None, temp_dir: str | None) -> int:
    """Stop the sessions on this machine, or the one named by --session."""
    from sundog.engines import sessions

    found = sessions.find_sessions(temp_dir)
    chosen = [info for info in found if session is None or info.name == session]
    if session is not None and not chosen:
        names = ", ".join(info.name for info in found) or "none"
        raise exits.CommandError(f"no running session is called {session!r}; running: {names}")
    for info in chosen:
        for what in sessions.stop_session(info, force=force, grace_s=grace_period):
            click.echo(f"stopped {what}")
    if chosen:
        click.echo(f"{len(chosen)} {'session' if len(chosen) == 1 else 'sessions'} ended.")
    else:
        click.echo("No session is running.")
    return exits.OK
