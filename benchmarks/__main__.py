"""The benchmark's command line and runner: plan, measure, write.

One process, one thread; everything measured runs in processes that it starts. See the package's docstring.
"""

from __future__ import annotations

import argparse
import compileall
import datetime
import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import footprint, machine, markers, picture, table, targets
from benchmarks.cases import all_cases, choose
from benchmarks.hosts import ROOT, find_launch, has_module
from benchmarks.results import Results, from_json
from benchmarks.sampling import FULL, QUICK
from benchmarks.systems import NAMES, TITLES
from benchmarks.turns import START_UP, Runner, plan

PEERS = NAMES[1:]
# What a peer must have installed to take part.
MODULES = {"ray": "ray", "dask": "distributed"}
BUSY_WARNING = 0.1


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure sundog beside Ray, Dask, the standard library's pools and the raw limit.",
        epilog="Example: python -m benchmarks --quick --peers ray,raw --only 'tasks|start-up' --check",
    )
    parser.add_argument("--quick", action="store_true", help="the headline cases only, in under 4 minutes")
    parser.add_argument(
        "--only", default="", metavar="PATTERN", help="cases or groups that match this pattern"
    )
    parser.add_argument(
        "--peers", default=",".join(PEERS), metavar="NAMES", help=f"of {','.join(PEERS)}; '' for sundog alone"
    )
    parser.add_argument("--rounds", type=int, default=0, help="rounds per case (default 3, quick 2)")
    parser.add_argument(
        "--minutes", type=float, default=0, help="no new turn after this (default 24, quick 3.5)"
    )
    parser.add_argument(
        "--out", type=Path, default=ROOT / "benchmarks" / "results", help="folder of what is written"
    )
    parser.add_argument("--peers-python", default="", help="python that has the peers (default .venv-peers)")
    parser.add_argument("--from-json", type=Path, help="measure nothing, read an earlier run's results.json")
    parser.add_argument(
        "--docs",
        action="store_true",
        help="update docs/benchmarks.md and the README between their bench markers",
    )
    parser.add_argument("--check", action="store_true", help="say which targets were reached")
    parser.add_argument(
        "--strict", action="store_true", help="like --check, and exit with 1 when one was missed"
    )
    parser.add_argument("--list", action="store_true", help="list the cases and stop")
    options = parser.parse_args(argv)
    options.peers = [name for name in options.peers.split(",") if name]
    if unknown := [name for name in options.peers if name not in PEERS]:
        parser.error(f"unknown peers {', '.join(unknown)}; known: {', '.join(PEERS)}")
    if options.rounds < 0:
        parser.error("--rounds must be at least 1")
    default_rounds = 2 if options.quick else 3
    options.default_rounds = options.rounds in (0, default_rounds)
    options.rounds = options.rounds or default_rounds
    try:
        re.compile(options.only)
    except re.error as exc:
        parser.error(f"--only is not a regular expression: {exc}")
    return options


def find_peers_python(given: str) -> str:
    own_environment = ROOT / ".venv-peers" / "bin" / "python"
    return given or (str(own_environment) if own_environment.exists() else sys.executable)


def measure(options: argparse.Namespace) -> Results:
    """Carry out the run that the options describe."""
    peers_python = find_peers_python(options.peers_python)
    missing = [
        name for name in options.peers if name in MODULES and not has_module(peers_python, MODULES[name])
    ]
    for name in missing:
        print(
            f"{TITLES[name]} is not installed for {peers_python}: left out (see: make bench)", file=sys.stderr
        )
    systems = ["sundog", *(name for name in options.peers if name not in missing)]
    facts = machine.facts()
    if facts["busy_before"] > BUSY_WARNING:
        print(
            f"the machine is {facts['busy_before']:.0%} busy with other things: expect noise", file=sys.stderr
        )
    cases = choose(all_cases(), quick=options.quick, only=options.only)
    turns = plan(
        cases,
        systems,
        options.rounds,
        start_up=bool(re.search(options.only, f"{START_UP} idle init to first result", re.IGNORECASE)),
        one_group=options.quick,
    )
    minutes = options.minutes or (3.5 if options.quick else 24.0)
    began = time.monotonic()
    footprint.adopt_orphans()
    # A short path: Ray puts sockets below it, whose paths may have 107 characters.
    with tempfile.TemporaryDirectory(prefix="bench-", dir="/tmp") as scratch:
        launches = {s: find_launch(s, peers_python, sys.executable, scratch) for s in systems}
        runner = Runner(
            launches, QUICK if options.quick else FULL, 2.0 if options.quick else 3.0, began + minutes * 60
        )
        results = runner.run(turns)
    results.settle([START_UP, *dict.fromkeys(case.group for case in all_cases())])
    results.facts = {
        **facts,
        "made": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "command": command_line(options),
        "rounds": options.rounds,
        "took_s": round(time.monotonic() - began),
        "missing": missing,
        "turns_not_run": runner.turns_not_run,
    }
    return results


def command_line(options: argparse.Namespace) -> str:
    """The command that would make these results again, without paths."""
    parts = ["python -m benchmarks"]
    parts += ["--quick"] if options.quick else []
    parts += [f"--only '{options.only}'"] if options.only else []
    parts += [f"--peers '{','.join(options.peers)}'"] if options.peers != list(PEERS) else []
    parts += [f"--rounds {options.rounds}"] if not options.default_rounds else []
    return " ".join(parts)


def write(results: Results, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps(results.as_json(), indent=1) + "\n", encoding="utf-8")
    (out / "results.md").write_text(table.report(results), encoding="utf-8")
    drawn = picture.draw(results)
    if drawn is None:
        print("no picture: Ray and another system share no headline figure in this run", file=sys.stderr)
    else:
        (out / "results.svg").write_text(drawn, encoding="utf-8")


def update_docs(results: Results, out: Path) -> None:
    """Put the whole report and its picture into the page of the benchmarks, and a few rows into the README."""
    folder = ROOT / "docs"
    section = table.report(results)
    shown = out / "results.svg"
    if shown.exists():
        # The site is built from docs/ alone.
        shutil.copyfile(shown, folder / "images" / "benchmarks.svg")
        section = f"![How many times better than Ray, per case](images/benchmarks.svg)\n\n{section}"
    markers.update_file(folder / "benchmarks.md", section)
    markers.update_file(ROOT / "README.md", table.short(results))


def main(argv: Sequence[str] | None = None) -> int:
    options = parse(sys.argv[1:] if argv is None else argv)
    if options.list:
        for case in all_cases():
            print(f"{'*' if case.headline else ' '} {case.group:14} {case.name}")
        print("* part of --quick; start-up and idle are measured beside the cases")
        return 0
    if options.from_json:
        results = from_json(json.loads(options.from_json.read_text(encoding="utf-8")))
    else:
        # As pip does for the peers: the first start of a fresh checkout would measure the compiler.
        compileall.compile_dir(ROOT / "src", quiet=1)
        results = measure(options)
    write(results, options.out)
    print(table.report(results))
    if options.docs:
        update_docs(results, options.out)
    if options.check or options.strict:
        verdicts = targets.judge(results)
        print(targets.summary(verdicts))
        failed = any(figure.failures.get("sundog") for figure in results.figures.values())
        if options.strict and (failed or any(v.reached is False for v in verdicts)):
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
