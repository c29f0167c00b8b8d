"""`sundog summary tasks|actors|objects`: counts over all rows of a kind.

Owns the page; the counting is `util.state.summary`. Runs in the terminal's process, main thread; it joins no session.
"""

import click

from sundog.cli import exits, rows
from sundog.cli.sessions import address_of, session_option

_EXAMPLES = rows.examples(
    ("sundog summary tasks", "how many tasks of each function, by state"),
    ("sundog summary actors", "how many actors of each class, by state"),
    ("sundog summary tasks --format json", "with the processor time and memory they used"),
)


@click.command(
    "summary",
    short_help="Count tasks by name, actors by class, objects by call site.",
    epilog=_EXAMPLES,
)
@rows.resource_argument(("tasks", "actors", "objects"))
@rows.format_option(default="a table")
@rows.timeout_option
@rows.address_option
@session_option
def command(resource: str, form: str, timeout: int, address: str | None, session: str | None) -> int:
    """Count tasks by name, actors by class, or objects by the place that made them.

    RESOURCE is tasks, actors or objects.
    """
    from sundog.util import state

    address = address_of(session, address)
    ask = getattr(state, f"summarize_{resource}")
    found = rows.asked(lambda: ask(address, timeout, raise_on_missing_output=False))["cluster"]
    totals = {key: value for key, value in found.items() if key.startswith("total_")}
    if form in ("json", "yaml"):
        rows.show([found], form)
        return exits.OK
    click.echo(
        ", ".join(
            f"{key.removeprefix('total_').replace('_', ' ')}: {_number(value)}"
            for key, value in totals.items()
        )
    )
    rows.show_table([_shown(name, entry) for name, entry in sorted(found["summary"].items())])
    return exits.OK


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}"


def _shown(name: str, entry: dict[str, object]) -> dict[str, object]:
    """One line of the table: counts in words, without the usage, which --format json has."""
    row: dict[str, object] = {"name": name}
    for key, value in entry.items():
        if isinstance(value, dict) and key.endswith("counts"):
            row[key] = ", ".join(f"{state}: {count}" for state, count in value.items())
        elif key not in ("usage", "func_or_class_name", "class_name"):
            row[key] = value
    return row
