"""`sundog diff A B`: two sessions compared, function by function; for CI with an exit code.

Owns the page; the comparing is `advice.comparison`. Exit codes: 0; 1 if something is worse than `--fail-if` allows.
Runs in the terminal's process, main thread; it joins no session.
"""

import json
from typing import TYPE_CHECKING

import click

from sundog.cli import exits, rows
from sundog.cli.sessions import opened

if TYPE_CHECKING:
    from sundog.advice.comparison import ComparedFunction

_EXAMPLES = rows.examples(
    ("sundog diff before.sundog latest", "a stored session and the newest"),
    ("sundog diff A B --fail-if slower=20%", "exit code 1 if a function or the run is a fifth slower"),
    ("sundog diff A B --fail-if larger=10% --fail-if failed", "more memory, or more failures"),
    ("sundog diff A B --json", "for a program to read"),
)
_MIB = 1 << 20


@click.command("diff", short_help="Compare two sessions, function by function.", epilog=_EXAMPLES)
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@click.option(
    "--fail-if",
    "limits",
    multiple=True,
    metavar="LIMIT",
    help="Exit with 1 if B is worse than A: slower=SHARE, larger=SHARE, failed, spilled, changed. Can be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(before: str, after: str, limits: tuple[str, ...], as_json: bool) -> int:
    """Compare two sessions: for each function how often it ran, its time, peak memory, spills, failures, and its code.

    A and B are what --session takes: names or parts of them, folders, files of `sundog session export`, or latest.
    """
    from sundog.advice import comparison

    try:
        parsed = [comparison.parse_limit(each) for each in limits]
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--fail-if") from None
    first, second = comparison.figures_of(opened(before)), comparison.figures_of(opened(after))
    worse = comparison.breaches(first, second, parsed)
    found = comparison.compare(first, second)
    if as_json:
        told = {
            "before": {"session": first.name, **first.as_dict()},
            "after": {"session": second.name, **second.as_dict()},
            "renamed": {
                each.before_name: each.name for each in found if each.before_name not in ("", each.name)
            },
            "worse": worse,
        }
        click.echo(json.dumps(told, indent=2))
        return exits.FAILED if worse else exits.OK
    click.echo(f"{first.name}: {first.length_s:.2f} s")
    click.echo(f"{second.name}: {second.length_s:.2f} s ({_share(first.length_s, second.length_s)})")
    rows.show_table([_shown(each) for each in found])
    for text in worse:
        click.echo(f"worse: {text}")
    return exits.FAILED if worse else exits.OK


def _shown(row: "ComparedFunction") -> dict[str, object]:
    before, after = row.before, row.after
    return {
        "function": row.name if row.before_name in ("", row.name) else f"{row.before_name} → {row.name}",
        "count": _pair(before.count, after.count),
        "seconds each": " → ".join(f"{each.mean_s:.4f}" if each.count else "-" for each in (before, after)),
        "change": _change(row),
        "peak MiB": _pair(before.peak_bytes // _MIB, after.peak_bytes // _MIB),
        "failed": _pair(before.failed, after.failed),
        "spilled MiB": _pair(before.spilled_bytes // _MIB, after.spilled_bytes // _MIB),
        "code": "changed" if row.is_changed else "=",
    }


def _change(row: "ComparedFunction") -> str:
    if not row.before.count or not row.after.count:
        return "new" if row.after.count else "gone"
    return f"{row.slower:+.0%}" if row.slower else "="


def _pair(before: int, after: int) -> str:
    return str(before) if before == after else f"{before} → {after}"


def _share(before: float, after: float) -> str:
    return f"{after / before - 1.0:+.0%}" if before > 0 else "new"
