"""`sundog dashboard`: the page of a session in the browser, running or ended, or of a packed file.

Owns the choice: a session with a head process has an address already, which is printed; for any other one the head
process runs here, in the terminal, until Ctrl-C. Runs in the terminal's process, main thread.
"""

import click

from sundog.cli import exits, rows
from sundog.cli.sessions import opened, session_option

_EXAMPLES = rows.examples(
    ("sundog dashboard", "the newest session"),
    ("sundog dashboard --port 0", "on any free port"),
    ("sundog dashboard --session run.sundog", "of a file from a colleague"),
)


@click.command(
    "dashboard",
    short_help="Show a session's page in the browser; running, ended, or a file.",
    epilog=_EXAMPLES,
)
@session_option
@click.option(
    "--host",
    "--dashboard-host",
    default="127.0.0.1",
    show_default=True,
    help="The address on which the page is served.",
)
@click.option(
    "--port",
    "--dashboard-port",
    type=click.IntRange(0, 65535),
    help="The port; 0 means any free port. By default 8265, or a port after it if 8265 is in use.",
)
def command(session: str | None, host: str, port: int | None) -> int:
    """Show a session's page in the browser.

    The address that is printed has a token in it: anyone with the address can see the session and start jobs in it.
    """
    from sundog import config
    from sundog.engines import heads

    chosen = opened(session)
    running = heads.read_head(chosen.path) if chosen.is_live else None
    if running is not None:
        click.echo(f"Dashboard of {chosen.name}:\n  {running.page}")
        return exits.OK
    try:
        head = heads.make_head(host, port)
    except (heads.NotInstalled, heads.PortTaken) as error:
        raise exits.CommandError(str(error)) from None
    from sundog.head import program

    if chosen.is_live:
        heads.write_head(chosen.path, head.info)
    state = "" if chosen.is_live else " (ended)"
    click.echo(f"Dashboard of {chosen.name}{state}; Ctrl-C ends it:\n  {head.info.page}")
    try:
        program.serve(chosen, head.info, head.listener, config.load().max_running_jobs, with_page=True)
    finally:
        head.listener.close()
        if chosen.is_live:
            heads.remove_head(chosen.path)
    return exits.OK
