"""``python -m tests.chaos``: random programs under random kills, for as long as asked; exit status 1 on a violation."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence

from tests.chaos import clocks, fullness, killers
from tests.chaos.harness import Harness


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command line; what it leaves open is taken from CHAOS_SECONDS and CHAOS_SEED."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("CHAOS_SECONDS", "300")))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("CHAOS_SEED", "1")))
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this session of the seed alone")
    parser.add_argument(
        "--kill",
        default=",".join(killers.by_default()),
        metavar="KINDS",
        help=f"of {','.join(killers.WEIGHTS)}; '' for peace (default: %(default)s)",
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    """Run, print the report, say how it went."""
    options = parse(argv)
    kinds = [kind for kind in options.kill.split(",") if kind]
    if unknown := set(kinds) - set(killers.WEIGHTS):
        print(f"unknown killers: {', '.join(sorted(unknown))}. There are: {', '.join(killers.WEIGHTS)}")
        return 2
    # As Ctrl+C: the driver is ended, and what it stopped goes on.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    harness = Harness(options.seed, kinds, lambda line: print(line, flush=True))
    if clocks.refusal():
        print(f"no session on a clock that jumps: {clocks.refusal()}")
    if fullness.refusal():
        print(f"no session on a full disk: nothing can be mounted here ({fullness.refusal()})")
    print(f"seed {options.seed}, kills: {options.kill or 'none'}", flush=True)
    if options.only is not None:
        harness.play(options.only)
        report = harness.report
    else:
        report = harness.run(options.seconds)
    print(report.text())
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
