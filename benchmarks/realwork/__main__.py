"""The runner of the real programs: `python -m benchmarks.realwork`. One process, one program at a time.

Rounds go over workloads, and within a workload over the systems, in an order that rotates: a slow minute of the
machine hits everyone alike.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks import footprint, machine, markers
from benchmarks.hosts import ROOT, Launch
from benchmarks.realwork import SYSTEMS, TITLES, WORKLOADS, report, systems_of
from benchmarks.realwork.running import ProgramFailed, run

REPETITIONS = 3  # within one program: the first is cold, the best of the others is warm


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.realwork",
        description="Whole programs as users write them, on sundog and on every system that has a way to do them.",
        epilog="Example: python -m benchmarks.realwork --only 'imap|pipeline' --systems sundog,pool --rounds 1",
    )
    parser.add_argument("--only", default="", metavar="PATTERN", help="workloads that match this pattern")
    parser.add_argument(
        "--systems", default=",".join(SYSTEMS), metavar="NAMES", help=f"of {','.join(SYSTEMS)}"
    )
    parser.add_argument("--rounds", type=int, default=3, help="how often each program is started (default 3)")
    parser.add_argument(
        "--minutes",
        type=float,
        default=0.0,
        help="begin nothing after so many, once each program ran (0: no limit)",
    )
    parser.add_argument(
        "--docs",
        action="store_true",
        help="write the tables into docs/benchmarks.md, between its work markers",
    )
    parser.add_argument("--peers-python", default="", help="python that has the peers (default .venv-peers)")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "benchmarks" / "results", help="folder of the results"
    )
    return parser.parse_args(argv)


def launches(options: argparse.Namespace, scratch: str) -> dict[str, Launch]:
    """How to start each system: all in the peers' environment, with the same libraries; sundog from its source."""
    python = options.peers_python or str(ROOT / ".venv-peers" / "bin" / "python")
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
        "RAY_TMPDIR": scratch,
        "PYTHONWARNINGS": "ignore",
    }
    return {system: Launch(python, environ) for system in (*SYSTEMS, "serial")}


def measure(options: argparse.Namespace) -> dict[str, report.Row]:
    """Run everything that the options ask for."""
    chosen = [name for name in WORKLOADS if re.search(options.only, name)]
    wanted = options.systems.split(",")
    rows = {name: report.Row() for name in chosen}
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="realwork-") as scratch:
        known = launches(options, scratch)
        expected = {name: run("serial", name, 1, known["sundog"]).result for name in chosen}
        for number in range(options.rounds):
            for name in chosen:
                systems = [system for system in systems_of(name) if system in wanted]
                turn = number % max(1, len(systems))
                if number and options.minutes and time.monotonic() - began > 60 * options.minutes:
                    return rows
                for system in systems[turn:] + systems[:turn]:
                    _one(rows[name], name, system, known[system], expected[name])
    return rows


def _one(row: report.Row, name: str, system: str, launch: Launch, expected: object) -> None:
    if system in row.failures:
        return
    try:
        outcome = run(system, name, REPETITIONS, launch)
    except ProgramFailed as error:
        row.failures[system] = str(error)
        print(f"{name}, {TITLES[system]}: failed: {error}", file=sys.stderr)
        return
    if outcome.result != expected:
        row.failures[system] = f"gave {outcome.result!r}, the serial program {expected!r}"
        return
    row.outcomes.setdefault(system, []).append(outcome)
    warm = outcome.warm_s or 0.0
    print(
        f"{name}, {TITLES[system]}: cold {outcome.wall_s:.2f} s, warm {warm:.2f} s, "
        f"processor {outcome.cpu_s:.2f} s, peak {outcome.peak_pss_mb:.0f} MB",
        file=sys.stderr,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, write results, print the tables; 1 if a program of sundog's failed."""
    options = parse(sys.argv[1:] if argv is None else argv)
    footprint.adopt_orphans()
    # As pip does for the peers: where bytecode is not written, each program of sundog's would measure the compiler.
    compileall.compile_dir(ROOT / "src", quiet=1)
    rows = measure(options)
    options.out.mkdir(parents=True, exist_ok=True)
    kept = {
        name: {
            "failures": row.failures,
            "outcomes": {s: [asdict(o) for o in each] for s, each in row.outcomes.items()},
        }
        for name, row in rows.items()
    }
    (options.out / "realwork.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    text = report.tables(rows, [system for system in SYSTEMS if system in options.systems.split(",")])
    (options.out / "realwork.md").write_text(text, encoding="utf-8")
    print(text)
    if options.docs:
        section = report.page(rows, options.systems.split(","), machine.facts(), time.strftime("%Y-%m-%d"))
        markers.update_file(ROOT / "docs" / "benchmarks.md", section, markers.WORK)
    return int(any("sundog" in row.failures for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
