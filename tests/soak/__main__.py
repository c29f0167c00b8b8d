"""``python -m tests.soak``: play a program for long, sample its session, judge the lines; status 1 if one grows."""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.soak.judge import Verdict, judge
from tests.soak.picture import draw
from tests.soak.sampling import Sample, Sampler, lines_of

SAMPLES_MAX = 300
END_S = 60.0
WORDS = {
    "program": "tasks, actors, puts, spills, failures",
    "actors": "actors that come and go, four at a time",
}


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command line; what it leaves open is taken from SOAK_SECONDS."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("SOAK_SECONDS", "600")))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--program", choices=("program", "actors"), default="program", help="what is played")
    parser.add_argument("--picture", type=Path, help="where the SVG goes; none without it")
    parser.add_argument(
        "--out", type=Path, help="where the samples go (default: a new file in the temporary folder)"
    )
    return parser.parse_args(argv)


def play(seconds: float, seed: int, program: str = "program") -> tuple[list[tuple[float, Sample]], int]:
    """Run the program for so long; returns the samples with their times, and how many rounds it made.

    Raises:
        RuntimeError: the program failed; its errors are above.
    """
    with tempfile.TemporaryDirectory(prefix="sundog-soak-") as folder:
        process = subprocess.Popen(
            [sys.executable, "-m", f"tests.soak.{program}", str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "SUNDOG_temp_dir": folder},
        )
        assert process.stdin is not None and process.stdout is not None
        try:
            first = process.stdout.readline()
            if not first:
                raise RuntimeError("the program of the soak ended before its session began")
            samples = _sample(json.loads(first), process, seconds)
            process.stdin.close()
            last = process.stdout.read()
            if process.wait(END_S) or not last:
                raise RuntimeError(f"the program of the soak ended with status {process.returncode}")
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdout.close()
    return samples, int(json.loads(last.splitlines()[-1])["rounds"])


def _sample(
    facts: dict[str, str], process: subprocess.Popen[str], seconds: float
) -> list[tuple[float, Sample]]:
    sampler = Sampler(int(facts["pid"]), facts["path"], facts["shm_root"])
    samples: list[tuple[float, Sample]] = []
    start = time.monotonic()
    step = max(0.5, seconds / SAMPLES_MAX)
    while (at := time.monotonic() - start) < seconds:
        if process.poll() is not None:
            raise RuntimeError(f"the program of the soak ended with status {process.returncode}")
        samples.append((at, sampler.sample()))
        time.sleep(step)
    return samples


def write(samples: list[tuple[float, Sample]], path: Path) -> None:
    """Keep all samples as CSV: a row each, a column for each figure."""
    names = sorted({name for _, sample in samples for name in sample})
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["seconds", *names])
        for at, sample in samples:
            rows.writerow([f"{at:.1f}", *(sample.get(name, "") for name in names)])


def main(argv: Sequence[str]) -> int:
    """Run, print the verdicts, draw them, say how it went."""
    options = parse(argv)
    samples, rounds = play(options.seconds, options.seed, options.program)
    path = options.out
    if path is None:
        handle, name = tempfile.mkstemp(prefix="sundog-soak-", suffix=".csv")
        os.close(handle)
        path = Path(name)
    write(samples, path)
    verdicts = [judge(line) for line in lines_of(samples)]
    for verdict in verdicts:
        print(verdict.text())
    if options.picture is not None:
        title = f"A soak of {options.seconds:.0f} s: {rounds:,} rounds of {WORDS[options.program]}"
        options.picture.write_text(draw(verdicts, title), encoding="utf-8")
    grown = [verdict for verdict in verdicts if not verdict.flat]
    print(f"{rounds:,} rounds, {len(samples)} samples ({path}); {_words(grown)}")
    return 1 if grown else 0


def _words(grown: Sequence[Verdict]) -> str:
    if not grown:
        return "everything is flat"
    return "what grows: " + ", ".join(verdict.line.name for verdict in grown)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
