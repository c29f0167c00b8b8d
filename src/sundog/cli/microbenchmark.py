"""`sundog microbenchmark`: the headline cases on this machine, in half a minute.

Owns a short list of cases, under the names that Ray's own microbenchmark gives them where it has the case,
and a clock. The command measures sundog alone; the comparison with other systems is `make bench`. Runs in the
terminal's process, main thread, in a session of its own that it ends.
"""

import json
import re
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from types import ModuleType
from typing import TYPE_CHECKING

import click

from sundog.cli import exits, rows

if TYPE_CHECKING:
    from rich.table import Table

# Enough that reading the clock does not matter, and so few that a round takes less than 0.1 s.
BATCH = 1_000
MEGABYTE = 2**20


@dataclass(frozen=True)
class Case:
    """Something to do again and again: `work()` does `amount` units of it."""

    name: str
    unit: str
    amount: float
    work: Callable[[], object]


@dataclass(frozen=True)
class Result:
    """Median over the rounds, and half the distance between the quartiles as the spread."""

    name: str
    unit: str
    median: float
    spread: float
    rounds: int


def measure(case: Case, seconds: float, clock: Callable[[], float] = time.perf_counter) -> Result:
    """Run the case for about so long, at least three rounds after one that is thrown away."""
    case.work()
    rates: list[float] = []
    deadline = clock() + seconds
    while len(rates) < 3 or clock() < deadline:
        started = clock()
        case.work()
        rates.append(case.amount / (clock() - started))
    low, _, high = statistics.quantiles(rates, n=4)
    return Result(case.name, case.unit, statistics.median(rates), (high - low) / 2, len(rates))


def _nothing() -> bytes:
    return b"ok"


class _Plain:
    def nothing(self) -> bytes:
        return b"ok"


class _Async:
    async def nothing(self) -> bytes:
        return b"ok"


def make_cases(ray: ModuleType) -> Iterator[Case]:
    """The cases, made one after the other: what a case needs is started when it is its turn."""

    def many(submit: Callable[[], object]) -> Callable[[], object]:
        return lambda: ray.get([submit() for _ in range(BATCH)])

    def one_by_one(submit: Callable[[], object]) -> Callable[[], object]:
        def work() -> None:
            for _ in range(BATCH // 10):
                ray.get(submit())

        return work

    def repeat(action: Callable[[], object]) -> Callable[[], object]:
        def work() -> None:
            for _ in range(BATCH):
                action()

        return work

    nothing = ray.remote(_nothing)
    small = ray.put(0)
    yield Case("single client get calls", "calls/s", BATCH, repeat(lambda: ray.get(small)))
    yield Case("single client put calls", "calls/s", BATCH, repeat(lambda: ray.put(0)))
    block = _make_block()
    yield Case(
        "single client put 1 MB", "GB/s", 50 * MEGABYTE / 1e9, lambda: [ray.put(block) for _ in range(50)]
    )
    yield Case("single client tasks sync", "tasks/s", BATCH // 10, one_by_one(nothing.remote))
    yield Case("single client tasks async", "tasks/s", BATCH, many(nothing.remote))
    refs = [ray.put(i) for i in range(BATCH)]
    yield Case("single client wait 1k refs", "waits/s", 1, lambda: ray.wait(refs, num_returns=len(refs)))
    for kind, title in ((_Plain, "actor"), (_Async, "async-actor")):
        actor = ray.remote(kind).remote()
        yield Case(f"1:1 {title} calls sync", "calls/s", BATCH // 10, one_by_one(actor.nothing.remote))
        yield Case(f"1:1 {title} calls async", "calls/s", BATCH, many(actor.nothing.remote))


def _make_block() -> object:
    # numpy's buffers travel beside the pickle; without numpy a bytearray of the same size still shows the
    # copy.
    try:
        import numpy
    except ModuleNotFoundError:
        return bytearray(MEGABYTE)
    return numpy.zeros(MEGABYTE, dtype=numpy.uint8)


def measure_start(ray: ModuleType, num_cpus: int | None) -> Result:
    """Milliseconds from init() to the first task's result, once: the session stays for the other cases."""
    started = time.perf_counter()
    ray.init(num_cpus=num_cpus)
    ray.get(ray.remote(_nothing).remote())
    return Result("init to first result", "ms", 1e3 * (time.perf_counter() - started), 0.0, 1)


def make_table(results: list[Result]) -> "Table":
    """The results for the terminal."""
    from rich.table import Table

    table = Table("case", title="sundog microbenchmark", title_justify="left")
    for heading in ("median", "±", "unit", "rounds"):
        table.add_column(heading, justify="left" if heading == "unit" else "right")
    for result in results:
        digits = 1 if result.median < 100 else 0
        spread = f"{result.spread:,.{digits}f}" if result.rounds > 1 else ""
        table.add_row(result.name, f"{result.median:,.{digits}f}", spread, result.unit, str(result.rounds))
    return table


_EXAMPLES = rows.examples(
    ("sundog microbenchmark", "all cases, in about half a minute"),
    ("sundog microbenchmark --only actor", "the cases with this word in their names"),
    ("sundog microbenchmark --json", "for another program"),
)


@click.command("microbenchmark", short_help="Measure the headline cases on this machine.", epilog=_EXAMPLES)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    help="How long to run each case.",
)
@click.option(
    "--only",
    metavar="REGEX",
    default="",
    help="Run only the cases whose name matches this regular expression.",
)
@click.option(
    "--num-cpus", type=click.IntRange(min=1), help="Number of logical CPUs; by default those of this machine."
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def command(seconds: float, only: str, num_cpus: int | None, as_json: bool) -> int:
    """Measure the headline cases on this machine: sundog alone, in a session of its own."""
    try:
        wanted = re.compile(only)
    except re.error as error:
        raise click.BadParameter(f"not a regular expression: {error}", param_hint="--only") from error
    import sundog
    from sundog import api

    try:
        results = [measure_start(sundog, num_cpus)]
        results += [measure(case, seconds) for case in make_cases(sundog) if wanted.search(case.name)]
    finally:
        api.shutdown()
    if as_json:
        click.echo(json.dumps([asdict(result) for result in results], indent=2))
        return exits.OK
    from rich.console import Console

    Console().print(make_table(results))
    return exits.OK
