"""`python -m benchmarks.serve`: sundog's Serve, Ray Serve and uvicorn + FastAPI, measured in turn on loopback.

Owns the programs that it starts: each ends with its standard input. Ray is measured if `--ray PYTHON` names an
interpreter that has it.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from benchmarks.serve.load import Result, generator, measure

CASES: dict[str, tuple[str, bytes]] = {
    "no-op": ("/noop", b""),
    "chain of three": ("/chain", b""),
    "batch of 8": ("/batch", b""),
    "stream of 10": ("/stream", b""),
    "1 MB body": ("/body", b"x" * 1_000_000),
}
_REST_LOOK_S, _REST_MAX_S = 0.25, 5.0
_REST_SHARE = 0.25  # of a core, which idle programs may take
PLAIN_CASES = ("no-op", "1 MB body")  # that plain uvicorn + FastAPI answers too


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class Program:
    """One of the servers."""

    def __init__(self, which: str, python: str) -> None:
        self.which, self.port = which, free_port()
        root = Path(__file__).parent.parent.parent
        path = f"{root}:{root / 'src'}" if which == "sundog" else str(root)
        self.process = subprocess.Popen(
            [python, "-m", "benchmarks.serve.apps", which, str(self.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path, "RAY_SERVE_LOG_TO_STDERR": "0"},  # a child's environment
            text=True,
        )
        assert self.process.stdout is not None
        self.ready_s = float(self._wait("ready").split()[1])
        self._wait("all")

    def _wait(self, word: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(word):
                return line
        raise RuntimeError(f"{self.which} ended before it said {word!r}.")

    def end(self) -> None:
        """Close its standard input, and wait."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()


def cpu_s(pid: int) -> float:
    """Processor seconds of a process and of all that it has started."""
    total = 0.0
    with suppress(psutil.Error):
        first = psutil.Process(pid)
        for each in (first, *first.children(recursive=True)):
            with suppress(psutil.Error):
                times = each.cpu_times()
                total += times.user + times.system
    return total


def wait_for_rest(pids: list[int], used: Callable[[int], float] = cpu_s) -> bool:
    """Wait until programs have finished what their load has left them to do; whether they have in time.

    Otherwise the requests of the next program wait for a core meanwhile: Ray's processes take 0.4 of one in the second
    after a load.
    """
    deadline = time.monotonic() + _REST_MAX_S
    before = sum(map(used, pids))
    while time.monotonic() < deadline:
        time.sleep(_REST_LOOK_S)
        now = sum(map(used, pids))
        if now - before < _REST_SHARE * _REST_LOOK_S:
            return True
        before = now
    return False


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ray", default="", help="a Python that has ray[serve]")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument(
        "--starts", type=int, default=0, help="further starts of each, for the time of the start"
    )
    parser.add_argument("--cases", default="", help="only these, as in 'no-op,1 MB body'")
    given = parser.parse_args()
    cases = {name: each for name, each in CASES.items() if not given.cases or name in given.cases.split(",")}
    kinds = [("sundog", sys.executable), ("uvicorn", sys.executable)]
    kinds += [("ray", given.ray)] if given.ray else []
    starts: dict[str, list[float]] = {}
    for _ in range(given.starts):
        for which, python in kinds:
            program = Program(which, python)
            starts.setdefault(which, []).append(program.ready_s)
            program.end()
    programs = [Program(which, python) for which, python in kinds]
    found: dict[tuple[str, str], list[Result]] = {}
    try:
        for _ in range(given.rounds):
            for case, (path, body) in cases.items():
                for program in programs:
                    if program.which != "uvicorn" or case in PLAIN_CASES:
                        wait_for_rest([each.process.pid for each in programs])
                        result = measure(program.port, path, body, seconds=given.seconds)
                        found.setdefault((case, program.which), []).append(result)
    finally:
        for program in programs:
            program.end()
    print(
        "| case | server | requests/s | p50 ms | p99 ms (worst round) | failed |\n|---|---|---:|---:|---:|---:|"
    )
    for (case, which), rows in found.items():
        print(f"| {case} | {which} | {_row(rows)} |")
    print(
        f"load: {generator()}, 16 connections, {given.rounds} rounds of {given.seconds:g} s in turn, medians"
    )
    for program in programs:
        seconds = [*starts.get(program.which, ()), program.ready_s]
        print(
            f"{program.which}: cold start to the first answer {statistics.median(seconds):.2f} s "
            f"(median of {len(seconds)})"
        )


def _row(rows: list[Result]) -> str:
    def middle(name: str) -> Any:
        return statistics.median(getattr(row, name) for row in rows)

    worst = max(row.p99_ms for row in rows)
    numbers = f"{middle('per_second'):,.0f} | {middle('p50_ms'):.2f} | {middle('p99_ms'):.2f} ({worst:.2f})"
    return f"{numbers} | {sum(row.failed for row in rows)}"


if __name__ == "__main__":
    main()
