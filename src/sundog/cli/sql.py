"""`sundog sql "select …"`: a question of one's own to the records of a session. Nothing can be changed by it.

Owns the page and what a question may do: read. The tables are `observe.schema`'s, described in docs/records.md. Runs in
the terminal's process, main thread; it joins no session.
"""

import sqlite3

import click

from sundog.cli import exits, rows
from sundog.cli.sessions import opened, session_option

_EXAMPLES = rows.examples(
    ('sundog sql "select name, count(*), avg(duration_s) from tasks group by name"', "functions by time"),
    ('sundog sql "select * from tasks order by duration_s desc limit 5"', "the longest tasks"),
    ('sundog sql "select call_site, sum(duration_s) from gets group by 1"', "where the program waits"),
    ("sundog sql --tables", "what can be asked for"),
)
_READS = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)


@click.command("sql", short_help="Query the records of a session with SQL.", epilog=_EXAMPLES)
@click.argument("question", required=False)
@click.option("--tables", is_flag=True, help="Only show the views and tables with their columns.")
@session_option
@rows.format_option(default="a table")
def command(question: str | None, tables: bool, session: str | None, form: str) -> int:
    """Query the records of a session with SQL. A query changes neither the session nor its records."""
    from sundog.cli.progress import bar
    from sundog.observe.index import open_index

    if (question is None) != tables:
        raise click.UsageError("give one SQL query, or --tables.")
    chosen = opened(session)
    with bar("reading the records") as progress:
        index = open_index(chosen.path, progress)
    try:
        if tables:
            rows.show(_tables(index.db), "table" if form == "default" else form)
            return exits.OK
        index.db.set_authorizer(_only_reading)
        found = [{key: _shown(value) for key, value in row.items()} for row in index.dicts(str(question))]
        index.db.set_authorizer(None)
        missed = index.missed()
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise exits.CommandError(f"the query failed: {error}. See: sundog sql --tables") from None
    finally:
        index.close()
    if not found and form in ("default", "table"):
        click.echo("There are no such rows.")
    else:
        rows.show(found, "table" if form == "default" else form)
    if missed:
        click.echo(
            f"sundog: {missed} events are missing from these records: dropped beyond record_events_max, overwritten, "
            "or not written to a full disk",
            err=True,
        )
    return exits.OK


def _only_reading(action: int, *_: object) -> int:
    return sqlite3.SQLITE_OK if action in _READS else sqlite3.SQLITE_DENY


def _shown(value: object) -> object:
    return value.hex() if isinstance(value, bytes) else value


def _tables(db: sqlite3.Connection) -> list[dict[str, object]]:
    found = db.execute(
        "SELECT type, name FROM sqlite_master WHERE type IN ('view', 'table') ORDER BY type DESC, name"
    )
    return [
        {
            "kind": kind,
            "name": name,
            "columns": ", ".join(row[1] for row in db.execute(f"PRAGMA table_info({name})")),
        }
        for kind, name in found.fetchall()
    ]
