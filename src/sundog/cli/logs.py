"""`sundog logs`: what the processes of a session printed, by file, actor, task or process.

Owns the choice between listing files and showing one; the reading is `util.state.logs`. Runs in the terminal's process,
main thread; it joins no session. Ctrl-C ends --follow.
"""

from typing import Any

import click

from sundog.cli import exits, rows

_KINDS = ("actor", "task", "worker", "cluster")


_EXAMPLES = rows.examples(
    ("sundog logs", "the names of all files"),
    ("sundog logs 'worker*'", "the files whose names fit; one file is shown"),
    ("sundog logs task --id ID --err", "what a task wrote to standard error"),
    ("sundog logs actor --id ID --follow", "what an actor prints, as it comes"),
)


@click.command("logs", short_help="Show what the processes of a session printed.", epilog=_EXAMPLES)
@click.argument("what", nargs=-1, metavar="[FILE|PATTERN|actor|task|worker]")
@click.option("--id", "id_", metavar="ID", help="Of the actor or the task.")
@click.option("--pid", type=int, help="Of the worker.")
@click.option("-a", "--attempt-number", type=int, default=0, help="Which attempt of the task.")
@click.option("--err", "is_err", is_flag=True, help="What went to standard error.")
@click.option("--tail", type=int, default=1000, show_default=True, help="Lines from the end; -1 is all.")
@click.option("--follow", is_flag=True, help="Go on with what is printed from now on.")
@click.option("--node-id", metavar="ID", help="On which node; there is one.")
@click.option("--node-ip", metavar="IP", help="The same by its address.")
@rows.timeout_option
@rows.address_option
def command(what: tuple[str, ...], address: str | None, timeout: int, **options: Any) -> int:
    """Show what the processes of a session printed.

    Without an argument, or with a pattern, the files are listed; one file is shown. `actor --id`, `task --id` and
    `worker --pid` show what that one printed.
    """
    from sundog.util import state

    kind = what[0] if what and what[0] in _KINDS else "cluster"
    name = next((each for each in what if each not in _KINDS), "*")
    node = options["node_id"] or rows.asked(lambda: state.list_nodes(address))[0].node_id
    if kind == "cluster":
        found = rows.asked(lambda: state.list_logs(address, node_id=node, glob_filter=name))
        files = [each for group in found.values() for each in group]
        if len(files) != 1:
            if not files:
                raise exits.CommandError(f"no log is called {name!r}. See: sundog logs")
            for group, names in found.items():
                click.echo(f"{group}:")
                for each in names:
                    click.echo(f"  {each}")
            return exits.OK
        choice: dict[str, Any] = {"filename": files[0], "node_id": node}
    elif kind == "worker":
        choice = {"pid": _given(options["pid"], "--pid"), "node_id": node}
    else:
        choice = {f"{kind}_id": _given(options["id_"], "--id")}
    pieces = state.get_log(
        address,
        tail=options["tail"],
        follow=options["follow"],
        suffix="err" if options["is_err"] else "out",
        attempt_number=options["attempt_number"],
        timeout=timeout,
        errors="backslashreplace",
        **choice,
    )
    while (piece := rows.asked(lambda: next(pieces, None))) is not None:
        click.echo(piece, nl=False)
    return exits.OK


def _given(value: object, option: str) -> object:
    if value is None:
        raise click.UsageError(f"{option} is needed to know whose log it is.")
    return value
