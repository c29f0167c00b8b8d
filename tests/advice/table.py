"""The doctor's table: programs with one planted fault or none, what is found in each, and what the mended twin takes.

::

    python -m tests.advice.table [NAME …] [--tries 3] [--write docs/doctor.md]
    python -m tests.advice.table --part 1/4 --keep /tmp/rows.jsonl     # a part at a time; the last call has --write too

Owns the running and the judging. Of several tries of a program the median by its prediction is shown, never the best.
A program is in `programs/`, its mended twin in `programs/mended/`; a line with the comment `# fault: KIND` is where
that fault is to be found. A program without such a line is a clean one: whatever is found in it is a false alarm, and
so is what is found of the same kind in a mended twin. A program with the line `# needs: LIBRARY` is left out where that
is not installed. A prediction is good if it is within 15 % of what the twin took, or within the noise of short runs
(`NOISE_S`); a range, if the twin's time is in it. All three are counted. Exit code 1 if a fault is not found, a clean
program has a finding, or a prediction is not good.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sundog.advice.findings import NOISE_S

PROGRAMS = Path(__file__).parent / "programs"
CLOSE = 0.15
_FAULT = re.compile(r"# fault: ([\w-]+)")
_NEEDS = re.compile(r"^# needs: (\w+)", re.M)
_START, _END = "<!-- table:start -->", "<!-- table:end -->"


@dataclass
class Row:
    """What became of one program."""

    name: str
    planted: str
    lines: list[int]
    found: str
    line: int
    length_s: float
    predicted_s: float
    twin_s: float
    others: list[str]
    twin_findings: list[str]
    least_s: float = -1.0  # of a range; -1: none was predicted

    @property
    def is_range(self) -> bool:
        """Whether the records left open how much is gained, so that a range was predicted."""
        return 0.0 <= self.least_s < self.predicted_s - NOISE_S

    @property
    def is_found(self) -> bool:
        """Whether the planted fault is the first finding, at its line; of a clean program, that there is none."""
        return not self.found if not self.planted else self.found == self.planted and self.line in self.lines

    @property
    def off(self) -> float:
        """How far the prediction (of a range, its nearest end) is from what the twin took, as a share of that."""
        nearest = min(max(self.twin_s, self.least_s), self.predicted_s) if self.is_range else self.predicted_s
        return nearest / self.twin_s - 1.0 if self.planted and self.twin_s else 0.0

    @property
    def is_close(self) -> bool:
        """Whether the prediction is within 15 % of what the twin took, or within the noise of short runs."""
        return self.is_found and (abs(self.off) <= CLOSE or abs(self.off) * self.twin_s <= NOISE_S)

    @property
    def is_good(self) -> bool:
        """Found, predicted well, and nothing found in the twin that is not there."""
        return (
            self.is_found and (not self.planted or self.is_close) and self.planted not in self.twin_findings
        )

    def cells(self) -> list[str]:
        """For the table."""
        if not self.planted:
            said = "nothing" if self.is_found else f"**{self.found}:{self.line}**"
            return [self.name, "none", said, f"{self.length_s:.2f}", "", "", ""]
        said = f"line {self.line}" if self.is_found else f"**{self.found or 'nothing'}:{self.line}**"
        return [
            self.name,
            f"{self.planted}, line {self.lines[0]}",
            said,
            f"{self.length_s:.2f}",
            f"{self.least_s:.2f}–{self.predicted_s:.2f}" if self.is_range else f"{self.predicted_s:.2f}",
            f"{self.twin_s:.2f}",
            f"{self.off:+.0%}",
        ]


def examine(program: Path) -> dict[str, Any]:
    """Run a program in a folder of its own, and have it examined."""
    with recorded(program) as environ:
        asked = subprocess.run(
            [sys.executable, "-m", "sundog.cli", "doctor", "--json"],
            env=environ, capture_output=True, text=True, check=True, timeout=120,
        )  # fmt: skip
    report: dict[str, Any] = json.loads(asked.stdout)
    return report


@contextmanager
def recorded(program: Path) -> Iterator[dict[str, str]]:
    """Run a program; inside, the environment in which its session is the newest one."""
    folder = tempfile.mkdtemp(prefix="sd-table-", dir="/tmp")
    environ = {**os.environ, "SUNDOG_temp_dir": folder}
    try:
        ran = subprocess.run(
            [sys.executable, str(program)],
            env=environ, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        if ran.returncode:
            raise RuntimeError(f"{program} failed: {ran.stderr[-2000:]}")
        yield environ
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def judge(name: str) -> Row:
    """Run a program and its twin, and judge what was found."""
    path = PROGRAMS / f"{name}.py"
    planted, lines = faults(path)
    report = examine(path)
    findings = report["findings"]
    first = next((each for each in findings if each["kind"] == planted), None) or (
        findings[0] if findings else {}
    )
    twin: dict[str, Any] = {"length_s": 0.0, "findings": []}
    if planted:
        twin = examine(PROGRAMS / "mended" / path.name)
    return Row(
        name, planted, lines, first.get("kind", ""), first.get("line", 0), report["length_s"],
        first.get("predicted_s", 0.0), twin["length_s"], [each["kind"] for each in findings],
        [each["kind"] for each in twin["findings"]], first.get("predicted_least_s", -1.0),
    )  # fmt: skip


def faults(path: Path) -> tuple[str, list[int]]:
    """The fault that is planted in a program, and its lines."""
    found = [
        (n, hit[1]) for n, line in enumerate(path.read_text().splitlines(), 1) if (hit := _FAULT.search(line))
    ]
    return (found[0][1] if found else "", [n for n, _ in found])


def missing(path: Path) -> str:
    """A library that a program needs and that is not installed here; "" if none is missing."""
    wanted = _NEEDS.findall(path.read_text())
    return next((name for name in wanted if importlib.util.find_spec(name) is None), "")


def names() -> list[str]:
    """Every program."""
    return sorted(path.stem for path in PROGRAMS.glob("*.py"))


def middle(name: str, tries: int) -> Row:
    """The median of several tries by how far the prediction is off; one in which the fault is not found comes last."""
    rows = sorted((judge(name) for _ in range(max(1, tries))), key=lambda row: (not row.is_found, row.off))
    return rows[len(rows) // 2]


def part_of(all_: list[str], part: str) -> list[str]:
    """The programs of one part: `2/4` is every fourth one, beginning with the second."""
    number, _, count = part.partition("/")
    return all_[int(number) - 1 :: int(count)]


def keep(file: Path, row: Row) -> None:
    """Add a row to a file of rows."""
    with file.open("a") as out:
        out.write(json.dumps(asdict(row)) + "\n")


def kept(file: Path) -> list[Row]:
    """The rows of a file, one for each program: its newest."""
    rows = [Row(**json.loads(line)) for line in file.read_text().splitlines()]
    return sorted({row.name: row for row in rows}.values(), key=lambda row: row.name)


def page(rows: list[Row], failed: Sequence[str] = ()) -> str:
    """The table in Markdown; programs that could not be examined are named above it."""
    faulty = [row for row in rows if row.planted]
    clean = [row for row in rows if not row.planted]
    heads = ["program", "planted", "found", "took s", "predicted s", "twin took s", "off"]
    lines = [
        f"{len(faulty)} programs with a planted fault: {sum(row.is_found for row in faulty)} found at their line. "
        f"{len(clean)} clean programs: {sum(not row.is_found for row in clean)} false alarms. "
        f"{sum(row.is_close for row in faulty)} of {len(faulty)} predictions are good: "
        f"{sum(row.is_close and not row.is_range and abs(row.off) <= CLOSE for row in faulty)} within 15 % of what the "
        f"mended twin took, {sum(row.is_close and not row.is_range and abs(row.off) > CLOSE for row in faulty)} more "
        f"within {NOISE_S:g} s, {sum(row.is_close and row.is_range for row in faulty)} as a range that the twin's time "
        f"is in; {sum(row.planted in row.twin_findings for row in faulty)} twins still accused of the fault."
        + (f" Not examined, because they failed: {', '.join(failed)}." if failed else ""),
        "",
        f"| {' | '.join(heads)} |",
        f"|{'|'.join(['---'] * 3 + ['---:'] * 4)}|",
        *(f"| {' | '.join(row.cells())} |" for row in rows),
    ]
    return "\n".join(lines)


def write(file: Path, text: str) -> None:
    """Put the table between its marks in a page."""
    before, _, rest = file.read_text().partition(_START)
    _, _, after = rest.partition(_END)
    file.write_text(f"{before}{_START}\n{text}\n{_END}{after}")


def main() -> int:
    """Run them all, or a part."""
    parser = argparse.ArgumentParser(prog="python -m tests.advice.table")
    parser.add_argument("names", nargs="*")
    parser.add_argument(
        "--tries", type=int, default=1, help="how often a program is tried; the median is shown"
    )
    parser.add_argument("--part", help="only a part of the programs: 1/4, 2/4, …")
    parser.add_argument(
        "--keep", type=Path, help="a file that the rows are added to; the table is made of all of it"
    )
    parser.add_argument("--write", type=Path, help="the page that has the table between its marks")
    given = parser.parse_args()
    chosen = given.names or names()
    rows: list[Row] = []
    failed: list[str] = []
    for name in part_of(chosen, given.part) if given.part else chosen:
        if lacking := missing(PROGRAMS / f"{name}.py"):
            print(f"left out {name}: {lacking} is not installed", flush=True)
            continue
        try:
            row = middle(name, given.tries)
        except (RuntimeError, subprocess.SubprocessError, OSError, ValueError, LookupError) as error:
            print(f"{name}: {error}", flush=True)  # one program that fails does not lose the table
            failed.append(name)
            continue
        rows.append(row)
        if given.keep is not None:
            keep(given.keep, row)
        mark = "ok " if row.is_good else "BAD"
        print(mark, " | ".join(row.cells()), row.others, row.twin_findings, flush=True)
    if given.keep is not None:
        rows = kept(given.keep)
    text = page(rows, failed)
    print(text.splitlines()[0])
    if given.write is not None:
        write(given.write, text)
    return 0 if all(row.is_good for row in rows) and not failed else 1


if __name__ == "__main__":
    raise SystemExit(main())
