"""`sundog get RESOURCE ID`: one row of the state API with all its columns.

Owns nothing but the page. Runs in the terminal's process, main thread; it joins no session.
"""

import click

from sundog.cli import exits, rows
from sundog.cli.sessions import address_of, session_option

_KNOWN = ("actors", "jobs", "nodes", "objects", "placement-groups", "tasks", "workers")


_EXAMPLES = rows.examples(
    ("sundog get tasks ID", "each attempt of a task, with its error"),
    ("sundog get actors ID", "one actor, and why it died"),
    ("sundog get objects ID", "the processes that hold references to an object"),
)


@click.command(
    "get",
    short_help="Show all that is known about one task, actor or object.",
    epilog=_EXAMPLES,
)
@rows.resource_argument(_KNOWN)
@click.argument("id_", metavar="ID")
@rows.format_option(default="YAML")
@rows.timeout_option
@rows.address_option
@session_option
def command(
    resource: str, id_: str, form: str, timeout: int, address: str | None, session: str | None
) -> int:
    """Show all that is known about one task, actor or object. A retried task is shown attempt by attempt.

    RESOURCE is actors, jobs, nodes, objects, placement-groups, tasks or workers; `sundog list RESOURCE` shows the ids.
    """
    from sundog.util import state

    address = address_of(session, address)
    name = "get_objects" if resource == "objects" else f"get_{resource.removesuffix('s')}"
    found = rows.asked(lambda: getattr(state, name)(id_, address, timeout))
    listed = found if isinstance(found, list) else [] if found is None else [found]
    if not listed:
        raise exits.CommandError(
            f"there is no row {id_} among the {resource.replace('_', ' ')}. "
            f"See: sundog list {resource.replace('_', '-')}"
        )
    rows.show([row.asdict() for row in listed], "yaml" if form == "default" else form)
    return exits.OK
