"""What profiling costs the program: processor seconds of the same tasks with and without it, in turn.

::

    python -m tests.profiling.overhead [--rounds 5]

Owns the measurement. Processor seconds of the worker, which the looking thread is in, do not depend on what else the
machine does; time on the clock would. Each round runs the program plain, under `sundog profile run` and with `--wall`;
the medians over the rounds are compared. Exit code 1 if a kind costs more than 5 %.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

MOST = 0.05
KINDS: dict[str, list[str]] = {
    "plain": [],
    "cpu": ["-m", "sundog.cli", "profile", "run"],
    "wall": ["-m", "sundog.cli", "profile", "run", "--wall"],
}
PROGRAM = """
import time
import sundog as ray

ray.init(num_cpus=2)

@ray.remote
def burn(n):
    began = time.process_time()
    seen = {}
    for i in range(n):
        seen[i % 1000] = seen.get(i % 1000, 0) + i * i % 7
    return time.process_time() - began

ray.get([burn.remote(1000) for _ in range(4)])
print("used", sum(ray.get([burn.remote(1_500_000) for _ in range(12)])))
"""


def used_s(kind: str, program: Path, folder: str) -> float:
    """The processor seconds of the program's tasks."""
    ran = subprocess.run(
        [sys.executable, *KINDS[kind], str(program)],
        env={**os.environ, "SUNDOG_temp_dir": folder}, capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    return float(next(line for line in ran.stdout.splitlines() if line.startswith("used")).split()[1])


def main() -> int:
    """Measure, and say what it costs."""
    parser = argparse.ArgumentParser(prog="python -m tests.profiling.overhead")
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory(prefix="sd-", dir="/tmp") as folder:
        program = Path(folder, "burn.py")
        program.write_text(PROGRAM)
        for _ in range(rounds):
            for kind in KINDS:
                found[kind].append(used_s(kind, program, folder))
    plain = median(found["plain"])
    costs = {kind: median(found[kind]) / plain - 1.0 for kind in KINDS if kind != "plain"}
    for kind, cost in costs.items():
        print(f"{kind}: {median(found[kind]):.3f} s where {plain:.3f} s is plain: {cost:+.1%}")
    return 0 if max(costs.values()) <= MOST else 1


if __name__ == "__main__":
    raise SystemExit(main())
