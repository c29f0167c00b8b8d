"""A program run measured from outside: wall time, processor seconds, peak memory, and that nothing is left.

Runs in the runner, which adopts orphans (`footprint.adopt_orphans`): daemons that leave their parent become its
children, so the processor seconds of everything the program started are in the usage of its ended children.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass

from benchmarks import footprint
from benchmarks.hosts import ROOT, Launch, last_lines
from benchmarks.realwork.program import MARK

LIMIT_S = 300.0
_GONE_S = 5.0
_LOOK_S = 0.1


class ProgramFailed(Exception):
    """The program ended with an error, or did not end in time."""


@dataclass(frozen=True)
class Outcome:
    """What one run of a program took; `seconds` are the times that the program took itself, one per repetition."""

    wall_s: float
    cpu_s: float
    peak_pss_mb: float
    seconds: tuple[float, ...]
    result: object

    @property
    def warm_s(self) -> float | None:
        """The shortest repetition after the first; None if there was only one."""
        return min(self.seconds[1:], default=None)


def run(system: str, workload: str, times: int, launch: Launch) -> Outcome:
    """Run a program once and measure it.

    Raises:
        ProgramFailed: it failed; the message has its last lines.
    """
    with tempfile.TemporaryFile() as log:
        before = _children_cpu_s()
        began = time.perf_counter()
        process = subprocess.Popen(
            [launch.python, "-m", "benchmarks.realwork.program", system, workload, str(times)],
            env=dict(launch.environ),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        watch = _Watch()
        try:
            code = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = None
        finally:
            wall_s = time.perf_counter() - began
            peak = watch.stop()
            footprint.await_none_below(os.getpid(), _GONE_S)
        if code != 0:
            outcome = f"took over {LIMIT_S:.0f} s" if code is None else f"ended with {code}"
            raise ProgramFailed(f"{outcome}; it last said: {last_lines(log)}")
        said = os.pread(log.fileno(), 1 << 24, 0).decode(errors="replace").splitlines()
    answer = json.loads(next(line for line in reversed(said) if line.startswith(MARK)).removeprefix(MARK))
    cpu_s = _children_cpu_s() - before
    return Outcome(wall_s, cpu_s, peak, tuple(answer["seconds"]), answer["result"])


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class _Watch:
    """Looks at the memory of everything below this process until it is stopped."""

    def __init__(self) -> None:
        self._peak = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(_LOOK_S):
            self._peak = max(self._peak, footprint.measure(os.getpid()).pss_mb)

    def stop(self) -> float:
        """End the watch; the largest PSS in MB."""
        self._over.set()
        self._thread.join()
        return self._peak
