"""`sundog rehearse`: a recorded run on another machine: time, memory, and what would be killed.

Owns the page; the playing is `advice.rehearsal`. Runs in the terminal's process, main thread; it joins no session.
"""

import json

import click

from sundog.cli import exits, rows
from sundog.cli.sessions import opened, session_option

_EXAMPLES = rows.examples(
    ("sundog rehearse --cpus 16", "the newest session on 16 CPUs"),
    ("sundog rehearse --memory 8GB", "which tasks would be killed with 8 GB"),
    ("sundog rehearse --cpus 4 --memory 16GiB --session run.sundog --json", "a file, for a program to read"),
)
_UNITS = {"": 1, "B": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KB": 10**3, "MB": 10**6, "GB": 10**9,
          "TB": 10**12, "KIB": 1 << 10, "MIB": 1 << 20,
          "GIB": 1 << 30, "TIB": 1 << 40}  # fmt: skip


class _Bytes(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    name = "bytes"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """`8GB`, `512MiB` or a number of bytes."""
        text = str(value).strip()
        digits = text.rstrip("BKMGTIbkmgti ")
        unit = text[len(digits) :].strip().upper()
        try:
            amount = float(digits) * _UNITS[unit]
        except (ValueError, KeyError):
            self.fail(f"{text!r} is not an amount of memory: write 8GB or 512MiB.", param, ctx)
        if amount <= 0:
            self.fail(f"{text!r} is not above 0.", param, ctx)
        return int(amount)


@click.command("rehearse", short_help="Predict a recorded run on another machine.", epilog=_EXAMPLES)
@click.option(
    "--cpus",
    type=click.FloatRange(min=0, min_open=True),
    help="CPUs of the other machine; by default as many as in the recorded run.",
)
@click.option(
    "--memory",
    type=_Bytes(),
    help="Memory of the other machine, such as 8GB; by default as much as in the recorded run.",
)
@session_option
@click.option("--json", "as_json", is_flag=True, help="Print the prediction as JSON.")
def command(cpus: float | None, memory: int | None, session: str | None, as_json: bool) -> int:
    """Predict a recorded run with other CPUs or other memory: the time it would take, its memory over time, and
    which tasks the memory monitor would kill there.
    """
    from sundog.advice.reading import read_run
    from sundog.advice.rehearsal import rehearse
    from sundog.advice.simulator import CannotPlay
    from sundog.cli.progress import bar
    from sundog.observe.index import opened as opened_index

    if cpus is None and memory is None:
        raise click.UsageError("give the CPUs or the memory of the other machine: --cpus, --memory or both.")
    chosen = opened(session)
    with bar("reading the records") as progress, opened_index(chosen.path, progress) as index:
        run = read_run(chosen, index)
    if not run.nodes:
        raise exits.CommandError(f"no task has ended in {chosen.name}, so there is nothing to simulate.")
    try:
        found = rehearse(run, cpus=cpus, memory_bytes=memory)
    except CannotPlay as error:
        raise exits.CommandError(f"this run cannot be simulated: {error}.") from None
    click.echo(json.dumps(found.as_dict(), indent=2) if as_json else "\n".join(found.lines()))
    return exits.OK
