"""`sundog kill-actor --name NAME`: end a named actor from a terminal.

Owns the flags, which are Ray's; the ending itself is that of `kill()` and `__ray_terminate__`. Joins the session for
as long as it takes. Runs in the terminal's process, main thread.
"""

import click

from sundog.cli import exits, rows

_EXAMPLES = rows.examples(
    ("sundog kill-actor --name store --namespace team", "after the calls that it has"),
    ("sundog kill-actor --name store --namespace team --force", "at once; it restarts if it may"),
    ("sundog list actors --detail", "the names of actors, and their namespaces"),
)

_WHERE = (
    "there is no actor called {!r} in the namespace of this command, which is a new one. Name the actor's: "
    "sundog kill-actor --name NAME --namespace NAMESPACE. "
    "See: sundog list actors --detail"
)


@click.command("kill-actor", short_help="End a named actor.", epilog=_EXAMPLES)
@click.option("--name", help="The actor's name.")
@click.option(
    "--namespace",
    help="The namespace of the actor's name; by default a new namespace, as for a program without namespace=.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Kill the actor at once. Without this option the actor finishes its pending calls first.",
)
@click.option("--no-restart", is_flag=True, help="With --force: do not restart the actor.")
@click.option("--address", help="The session's address; by default the newest running session.")
def command(
    name: str | None, namespace: str | None, force: bool, no_restart: bool, address: str | None
) -> int:
    """End a named actor: after the calls that it has, or at once with --force."""
    import logging

    import sundog
    from sundog.engines import sessions

    if not name:
        raise exits.CommandError("which actor? Give its name: sundog kill-actor --name NAME")
    if no_restart and not force:
        click.echo("--no-restart has an effect only with --force.", err=True)
    if address is None and not sessions.find_sessions():
        raise exits.NoSession
    sundog.init(
        address=address or "auto", namespace=namespace, log_to_driver=False, logging_level=logging.ERROR
    )
    try:
        try:
            actor = sundog.get_actor(name, namespace=namespace)
        except ValueError as error:
            if namespace is None:
                raise exits.CommandError(_WHERE.format(name)) from None
            raise exits.CommandError(str(error)) from None
        if force:
            sundog.kill(actor, no_restart=no_restart)
            click.echo(f"Actor {name} was killed.")
        else:
            _ask_to_end(actor)
            click.echo(f"Actor {name} has ended.")
    finally:
        sundog.shutdown()
    return exits.OK


def _ask_to_end(actor: object) -> None:
    """Send the last call, and wait until it was read: a call of a process that leaves is not made."""
    import sundog
    from sundog.exceptions import RayActorError

    try:
        sundog.get(actor.__ray_terminate__.remote())  # type: ignore[attr-defined]
    except RayActorError:
        pass  # the actor has ended
