"""`sundog memory`: which process holds which object of a running session, by which variable, and where the memory is.

Owns the page; the rows are `observe.memory`'s. Runs in the terminal's process, main thread; it joins no session.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from sundog.cli import exits, rows
from sundog.cli.sessions import live_session_option, opened_live
from sundog.observe.words import in_units, in_words
from sundog.printable import printable

if TYPE_CHECKING:
    from sundog.observe.memory import HoldingGroup, MemoryPicture, ObjectHolding

_GROUPS = {"node": "node", "node-address": "node", "stack-trace": "stack-trace"}
_SORTS = {"size": "size", "object-size": "size", "pid": "pid", "kind": "kind", "reference-type": "kind"}
_UNITS = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9}
_WHY_MOST = 10

_EXAMPLES = rows.examples(
    ("sundog memory", "every reference, the largest first"),
    ("sundog memory --why -n 5", "the five largest, and which variables hold them"),
    ("sundog memory --group-by stack-trace", "by the line that made the objects"),
    ("sundog memory --stats-only", "only the store and the processes"),
)


def _choice(known: dict[str, str]) -> object:
    """One of these words; Ray's spelling (NODE_ADDRESS) does as well."""

    def checked(_ctx: click.Context, _param: click.Parameter, given: str) -> str:
        found = known.get(given.lower().replace("_", "-"))
        if found is None:
            names = ", ".join([*known, *(each.upper().replace("-", "_") for each in known if "-" in each)])
            raise click.BadParameter(f"{given!r} is none of: {names}")
        return found

    return checked


@click.command(
    "memory", short_help="Show which process holds which object, and where the memory is.", epilog=_EXAMPLES
)
@click.option(
    "--group-by",
    default="node",
    callback=_choice(_GROUPS),
    metavar="node|stack-trace",
    help="Make one table for the node, or one table for each line of code that created objects.",
)
@click.option(
    "--sort-by",
    default="size",
    callback=_choice(_SORTS),
    metavar="size|pid|kind",
    help="The column by which the rows are sorted.",
)
@click.option(
    "--units",
    type=click.Choice([*_UNITS], case_sensitive=False),
    help="The unit of sizes; by default the one that suits each size.",
)
@click.option("--stats-only", is_flag=True, help="Show only the object store and the processes.")
@click.option(
    "-n",
    "--n",
    "--num-entries",
    "most",
    type=click.IntRange(0),
    help="Show at most so many rows of each table.",
)
@click.option(
    "--why", is_flag=True, help="Show which variable, attribute or frame holds each of the largest objects."
)
@click.option(
    "--no-format", is_flag=True, hidden=True, help="Accepted without effect, for programs written for Ray."
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@rows.address_option
@live_session_option
def command(
    group_by: str,
    sort_by: str,
    units: str | None,
    stats_only: bool,
    most: int | None,
    why: bool,
    no_format: bool,
    as_json: bool,
    address: str | None,
    session: str | None,
) -> int:
    """Show the references to objects in all processes: kind, size, age, and the line that made each.

    Below the table: the object store, what was spilled and restored, and the memory of each process, without the
    shared part that every process maps.
    """
    from sundog.observe import memory

    chosen = opened_live(session or address)
    assert chosen.info is not None
    picture = memory.collect(chosen.ask, chosen.path, chosen.info.shm_root)
    groups = [] if stats_only else memory.group(picture, group_by, sort_by)
    if why:
        largest = sorted((each for group in groups for each in group.rows), key=lambda each: -each.size_bytes)
        memory.explain(chosen.ask, picture, largest[: _WHY_MOST if most is None else most])
    if as_json:
        click.echo(json.dumps(_as_dict(picture, groups, most), indent=2))
        return exits.OK
    for each in groups:
        _show_group(picture, each, units, most, by_line=group_by == "stack-trace")
    if not stats_only and not picture.holdings:
        click.echo("No process holds a reference to an object.")
    _show_stats(picture, units)
    return exits.OK


# ---------------------------------------------------------------------- tables
def _show_group(
    picture: "MemoryPicture", group: "HoldingGroup", units: str | None, most: int | None, *, by_line: bool
) -> None:
    counts = ", ".join(f"{count} {kind}" for kind, count in group.counts.items() if count)
    size = _size(group.size_bytes, units)
    click.echo(
        click.style(f"{'Made at' if by_line else 'Node'} {printable(group.name)}: ", bold=True)
        + f"{size} in objects; {counts}"
    )
    shown = group.rows if most is None else group.rows[:most]
    rows.show_table([_row(each, units, by_line) for each in shown], numbered=False)
    if len(shown) < len(group.rows):
        click.echo(f" … and {len(group.rows) - len(shown)} more references")
    told = [each for each in shown if (each.who.pid, each.reference.object_id) in picture.retention]
    if told:
        click.echo("Held by:")
    for each in told:
        _show_why(picture, each, units)
    click.echo("")


def _row(each: "ObjectHolding", units: str | None, by_line: bool) -> dict[str, object]:
    reference = each.reference
    row: dict[str, object] = {
        "pid": each.who.pid,
        "type": each.who.kind,
        "call site": each.call_site or "-",
        "status": "-" if reference.status == "NIL" else reference.status,
        "attempt": reference.attempt,
        "size": _size(each.size_bytes, units) if each.size_bytes >= 0 else "?",
        "kind": reference.kind,
        "age": "?" if each.age_s is None else in_words(each.age_s),
        "where": each.where or "-",
        "object": reference.object_id,
    }
    if by_line:
        del row["call site"]
    return row


def _show_why(picture: "MemoryPicture", each: "ObjectHolding", units: str | None) -> None:
    found = picture.retention[each.who.pid, each.reference.object_id]
    size = _size(each.size_bytes, units) if each.size_bytes >= 0 else "size unknown"
    click.echo(f"  {each.reference.object_id} ({size}) in pid {each.who.pid}:")
    for way in found.paths:
        click.echo(f"    {printable(' ← '.join(way))}")
    if not found.paths:
        click.echo(f"    {_no_variable(picture, each, complete=found.complete)}")


def _no_variable(picture: "MemoryPicture", each: "ObjectHolding", *, complete: bool) -> str:
    """Why an object is held though no variable of the process leads to it."""
    if not complete:
        return "the search was given up after a few seconds"
    pids = {row.who.process_id: row.who.pid for row in picture.holdings}
    borrowers = [str(pids.get(name, name)) for name in each.reference.borrowers]
    if borrowers:
        return f"no variable here: it is kept for the process that holds it, pid {', '.join(borrowers)}"
    return "no variable here: a task that waits for it holds it, or another object that contains it"


def _show_stats(picture: "MemoryPicture", units: str | None) -> None:
    store, machine = picture.store, picture.machine
    limit = store.get("limit_bytes", 0)
    used = store.get("used_bytes", 0)
    share = f" ({used / limit:.0%})" if limit else ""
    click.echo(
        f"Object store: {_size(used, units)} of {_size(limit, units)}{share} in {store.get('segments', 0)} segments; "
        f"spilled now {_size(store.get('spilled_bytes', 0), units)} in {store.get('spilled_objects', 0)} objects; "
        f"spilled in all {_size(store.get('spilled_bytes_total', 0), units)}, "
        f"restored in all {_size(store.get('restored_bytes_total', 0), units)}"
    )
    if machine.get("total_bytes"):
        click.echo(
            f"Memory: {_size(machine['used_bytes'], units)} of {_size(machine['total_bytes'], units)} in use in "
            f"{machine['where']}; workers are ended above {_size(machine['limit_bytes'], units)}"
        )
    rows.show_table(
        [
            {
                "pid": each.pid,
                "process": each.what,
                "RSS": _size(each.rss_bytes, units),
                "shared": _size(each.shared_bytes, units),
                "of it objects": _size(each.store_bytes, units),
                "own": _size(each.own_bytes, units),
            }
            for each in picture.processes
        ],
        numbered=False,
    )
    own = sum(each.own_bytes for each in picture.processes)
    click.echo(
        f"Own memory of all processes {_size(own, units)} + object store {_size(used, units)} = "
        f"{_size(own + used, units)}. Shared pages are in the RSS of each process that maps them, and in memory once."
    )
    if picture.omitted:
        click.echo(f"{picture.omitted} smaller references are counted above and not listed.")
    if picture.silent:
        pids = ", ".join(map(str, picture.silent))
        click.echo(
            f"These processes did not answer, so their references are missing here: {pids}. See: sundog stack"
        )


def _size(size_bytes: float, units: str | None) -> str:
    if units is None:
        return in_units(size_bytes)
    factor = _UNITS[units.upper()]
    return f"{size_bytes:.0f} B" if factor == 1 else f"{size_bytes / factor:.3f} {units.upper()}"


def _as_dict(
    picture: "MemoryPicture", groups: "Sequence[HoldingGroup]", most: int | None
) -> dict[str, object]:
    return {
        "groups": [
            {
                "name": group.name,
                "object_bytes": group.size_bytes,
                "counts": group.counts,
                "references": [_as_row(picture, each) for each in group.rows[:most]],
            }
            for group in groups
        ],
        "totals": {
            kind: {"references": count, "bytes": size} for kind, (count, size) in picture.totals.items()
        },
        "store": picture.store,
        "memory": picture.machine,
        "processes": [
            {
                name: getattr(each, name)
                for name in ("pid", "what", "rss_bytes", "shared_bytes", "store_bytes")
            }
            | {"own_bytes": each.own_bytes}
            for each in picture.processes
        ],
        "silent": picture.silent,
        "omitted": picture.omitted,
    }


def _as_row(picture: "MemoryPicture", each: "ObjectHolding") -> dict[str, object]:
    row: dict[str, object] = {
        "pid": each.who.pid,
        "type": each.who.kind,
        **each.reference._asdict(),
        "size_bytes": each.size_bytes,
        "call_site": each.call_site,
        "age_s": each.age_s,
        "where": each.where,
    }
    found = picture.retention.get((each.who.pid, each.reference.object_id))
    if found is not None:
        row["held_by"] = [list(way) for way in found.paths]
    return row
