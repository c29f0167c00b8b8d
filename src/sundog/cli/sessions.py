"""`--session`: which session a command looks at. One option, one meaning, for every command; some need a running one.

Owns the option and what the terminal is told when there is no such session; what the words mean is
`observe.sessions`. Runs in the terminal's process, main thread.
"""

from typing import TYPE_CHECKING

import click

from sundog.cli import exits

if TYPE_CHECKING:
    from sundog.observe.sessions import Opened

session_option = click.option(
    "--session",
    metavar="latest|ID|PATH|FILE",
    help="The session, running or ended: its name or a part of the name, its folder, or a file of "
    "`sundog session export`. By default the newest, a running one first.",
)

live_session_option = click.option(
    "--session",
    metavar="latest|ID|PATH",
    help="The session, which must be running: its name or a part of the name, or its folder. By default the newest.",
)


def opened(session: str | None) -> "Opened":
    """The session that --session means.

    Raises:
        exits.NoSuchSession: there is none, it is another user's, or the file is no session.
    """
    from sundog.observe import sessions

    try:
        return sessions.open_session(session)
    except sessions.NoSuchSession as error:
        raise exits.UnfitSession(str(error)) from None


def address_of(session: str | None, address: str | None) -> str | None:
    """What the state API is to ask: --session, --address, a running session, or else the newest that has ended.

    Raises:
        exits.NoSession: there is none at all.
    """
    from sundog import config
    from sundog.engines import sessions as engine
    from sundog.observe import sessions

    if session is not None:
        return opened(session).path
    if address is not None or config.load().address or engine.find_sessions():
        return address
    try:
        found = sessions.open_session()
    except sessions.NoSuchSession:
        raise exits.NoSession from None
    if found.is_live:
        return None
    from sundog.observe.desks import has_desk

    said = "a job on a Ray cluster, up to a second ago" if has_desk(found.path) else "which has ended"
    click.echo(f"sundog: no session is running; this is of {found.name}, {said}", err=True)
    return found.path


def opened_live(session: str | None) -> "Opened":
    """The session, for a command that needs the processes and not their records.

    Raises:
        exits.NoSuchSession: it is not running.
    """
    found = opened(session)
    if not found.is_live:
        from sundog.observe.desks import has_desk

        if has_desk(found.path):
            raise exits.UnfitSession(
                f"the session {found.name} is a job on a Ray cluster, and this command needs processes of sundog. "
                f"Ray's own commands tell of its processes and objects: ray status, ray memory. "
                f"Of its tasks: sundog list tasks --session {found.name}"
            )
        raise exits.UnfitSession(
            f"the session {found.name} has ended, and this command needs a running one. Its records: "
            f"sundog list tasks --session {found.name}"
        )
    return found
