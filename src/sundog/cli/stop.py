"""`sundog stop`: end the sessions of `sundog start` on this machine, or the one that is named.

Owns which sessions are meant and what is reported; the ending itself is `engines.sessions.stop_session`. A session that
a program started with init() belongs to that program: it is listed, and ended only if it is named or --all is given.
Finding nothing to stop is success: the state asked for is the state there is. Runs in the terminal's
process, main thread.
"""

from typing import TYPE_CHECKING

import click

from sundog.cli import exits, rows
from sundog.cli.ray_flags import style_flags

if TYPE_CHECKING:
    from sundog.engines.sessions import SessionInfo


def _stop_node(found: list["SessionInfo"], node: str, *, force: bool, grace_s: float) -> int:
    """End one node: its tasks finish within the grace period, then the node goes with its actors and objects."""
    from sundog.engines import members, sessions
    from sundog.wire.requests import Nodes

    named = [
        (info, rows[0]["NodeID"], row["NodeID"])
        for info in found
        for rows in (sessions.request(info, Nodes()),)
        for row in rows
        if row["Alive"] and row["NodeID"].startswith(node)
    ]
    if len(named) != 1:
        what = "no node is" if not named else f"{len(named)} nodes are"
        raise exits.CommandError(f"{what} called {node!r}. See: sundog list nodes")
    info, head, node_id = named[0]
    if node_id == head:
        raise exits.CommandError(
            f"node {node} is the head: the session ends with it. To end it: sundog stop --session {info.name}"
        )
    finished = members.drain(info, node_id, timeout_s=0.0 if force else grace_s)
    click.echo(
        f"node {node_id[:8]} of {info.name} ended"
        + (
            "."
            if finished
            else f" with tasks that were still running{' after the grace period' * (not force)}."
        )
    )
    return exits.OK


_EXAMPLES = rows.examples(
    ("sundog stop", "the sessions of `sundog start`"),
    ("sundog stop --all", "also those that programs started with init()"),
    ("sundog stop --session NAME", "this one; sundog session list shows the names"),
    ("sundog stop --node ID", "one node, once its tasks have ended; sundog list nodes shows the ids"),
)


@click.command("stop", short_help="Stop the sessions of `sundog start` on this machine.", epilog=_EXAMPLES)
@click.option("-f", "--force", is_flag=True, help="Kill the processes at once instead of asking them to end.")
@click.option(
    "-g",
    "--grace-period",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a session may take to end by itself before it is killed.",
)
@click.option(
    "--session", metavar="NAME", help="Stop only this session, even if a program started it with init()."
)
@click.option(
    "--node", metavar="ID", help="Stop only this node of a session. The node finishes its tasks first."
)
@click.option(
    "-a",
    "--all",
    "everything",
    is_flag=True,
    help="Stop also the sessions that programs started with init().",
)
@click.option(
    "--temp-dir", type=click.Path(file_okay=False), help="The folder in which sessions keep their files."
)
@style_flags
def command(
    force: bool,
    grace_period: float,
    session: str | None,
    node: str | None,
    everything: bool,
    temp_dir: str | None,
) -> int:
    """Stop the sessions of `sundog start` on this machine, or the one named by --session, or one node."""
    from sundog.engines import sessions
    from sundog.exceptions import RaySystemError

    found = sessions.find_sessions(temp_dir)
    if node is not None:
        chosen = [info for info in found if session in (None, info.name)]
        return _stop_node(chosen, node, force=force, grace_s=grace_period)
    if session is not None:
        chosen = [info for info in found if info.name == session]
        if not chosen:
            names = ", ".join(info.name for info in found) or "none"
            raise exits.CommandError(f"no running session is called {session!r}; running: {names}")
    else:
        chosen = [info for info in found if info.persistent or everything]
    failures = []
    for info in chosen:
        try:
            for what in sessions.stop_session(info, force=force, grace_s=grace_period):
                click.echo(what[:1].upper() + what[1:])
        except RaySystemError as error:
            failures.append(str(error))
    ended = len(chosen) - len(failures)
    if ended:
        click.echo(f"{ended} {'session' if ended == 1 else 'sessions'} ended.")
    elif not found:
        click.echo("No session is running.")
    if session is None:
        for info in found:
            if info not in chosen:
                click.echo(
                    f"Left running: {info.name} (node pid {info.node_pid}), which a program started and which ends "
                    f"with it. To end it now: sundog stop --session {info.name}"
                )
    if failures:
        raise exits.CommandError("\n".join(failures))
    return exits.OK
