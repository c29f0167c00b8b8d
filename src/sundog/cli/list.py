"""`sundog list RESOURCE`: rows of the state API, filtered and limited.

Owns the choice of columns and of the format; the rows come from `util.state`. Runs in the terminal's process, main
thread; it joins no session.
"""

import click

from sundog.cli import exits, rows
from sundog.cli.sessions import address_of, session_option

_EXAMPLES = rows.examples(
    ("sundog list tasks", "the first 100 tasks"),
    ("sundog list tasks -f state=FAILED --detail", "why tasks failed"),
    ("sundog list actors -f state!=DEAD", "the actors that live"),
    ("sundog list workers --format json", "for another program"),
)


@click.command(
    "list",
    short_help="List tasks, actors, objects and everything else that a session has.",
    epilog=_EXAMPLES,
)
@rows.resource_argument()
@click.option(
    "-f",
    "--filter",
    "filters",
    multiple=True,
    metavar="KEY=VALUE",
    help="List only the rows for which this is true; also KEY!=VALUE. Of several filters all must be true.",
)
@click.option("--limit", type=int, default=100, show_default=True, help="List at most so many rows.")
@click.option("--detail", is_flag=True, help="Show all columns.")
@rows.format_option(default="a table; with --detail, YAML")
@rows.timeout_option
@rows.address_option
@session_option
def command(
    resource: str,
    filters: tuple[str, ...],
    limit: int,
    detail: bool,
    form: str,
    timeout: int,
    address: str | None,
    session: str | None,
) -> int:
    """List tasks, actors, objects and everything else that a session has: one row each.

    RESOURCE is actors, cluster-events, jobs, nodes, objects, placement-groups, runtime-envs, tasks or workers.
    """
    from sundog.util import state

    address = address_of(session, address)
    wanted = [rows.parse_filter(each) for each in filters]
    ask = getattr(state, f"list_{resource}")
    found = rows.asked(
        lambda: ask(
            address, wanted, limit=limit, timeout=timeout, detail=detail, raise_on_missing_output=False
        )
    )
    if not found and form in ("default", "table"):
        click.echo(f"There are no {resource.replace('_', ' ')}{' like that' if wanted else ''}.")
        return exits.OK
    shown = [_shown(row, detail) for row in found]
    rows.show(shown, ("yaml" if detail else "table") if form == "default" else form)
    return exits.OK


def _shown(row: object, detail: bool) -> "dict[str, object]":
    from sundog.util.state.schema import StateSchema

    assert isinstance(row, StateSchema)
    return {name: row[name] for name in row.list_columns(detail=detail)}
