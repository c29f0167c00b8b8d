"""The harness: session after session until the time is up, each in a driver of its own.

::

    harness ──starts──► driver (rounds.py) ──► node, zygote, workers
       │ ◄──"session <folder>", "report <json>"── │
       └── every sixth: SIGKILL ─────────────────►┘   then nothing of its sessions may be left

Of every six drivers one loses its node and another is killed itself: nothing can go on after that, so chance alone
would make these rare in a short run. A third lives on small file systems that are filled up (fullness.py), a fourth on
a wall clock that jumps (clocks.py), a fifth on nodes that join and are lost (members.py).

Owns the clock, the seeds and the judgement that nothing is left once a driver has ended, well or not. A driver
that does not end is asked for the stacks of its threads, then killed: that is a violation too.
"""

from __future__ import annotations

import os
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import sundog
from tests.chaos import clocks, fullness, members, processes
from tests.chaos.report import Report
from tests.chaos.stalls import Clock, Span, stacks
from tests.integration import drivers

ROOT = Path(__file__).parents[2]
# Every wait in a program ends after two minutes with a violation; a driver beyond this has lost its way entirely.
ROUND_MAX_S = 480.0
_LONGER_TIMES = 2  # so much again, if the kernel says that its processes were not let run
_EVERY, _LOSES_NODE, _IS_KILLED, _IS_CRAMPED, _IS_TURNED, _HAS_MEMBERS = 6, 0, 1, 2, 3, 4
_LEAST = 5  # sessions of a run, however short: one of each sort


class Harness:
    """Runs sessions, one after the other, and adds up their reports."""

    def __init__(self, seed: int, kinds: list[str], say: Callable[[str], None]) -> None:
        self.seed, self.kinds, self.say = seed, kinds, say
        self.report = Report()
        self.folder = tempfile.mkdtemp(prefix="sd-chaos-", dir="/tmp")  # short: sockets live below it
        # What tasks note lies apart: the other folder may be a full disk. A driver that is killed cannot remove it.
        self.notes = tempfile.mkdtemp(prefix="sd-notes-", dir="/tmp")

    def run(self, seconds: float) -> Report:
        """Play sessions until so many seconds have passed; the one that runs then is played to its end."""
        deadline = time.monotonic() + seconds
        number = 0
        try:
            while number < _LEAST or time.monotonic() < deadline:
                self.play(number)
                number += 1
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
            shutil.rmtree(self.notes, ignore_errors=True)
        return self.report

    def play(self, number: int) -> None:
        """One session; everything random in it follows from the seed and this number."""
        seed = f"{self.seed}/{number}"
        dice = random.Random(f"{seed}/harness")
        ends_early = number % _EVERY == _IS_KILLED and bool(self.kinds)
        cramped = number % _EVERY == _IS_CRAMPED and any(kind in self.kinds for kind in fullness.KINDS)
        # Without a limit of the store nothing is spilled there: a full disk then costs records, and no object.
        left_out = ("node", "spill") if cramped else ("node", *fullness.KINDS)
        turned = number % _EVERY == _IS_TURNED and clocks.CLOCK in self.kinds
        if not turned:
            left_out = (*left_out, clocks.CLOCK)
        # Where no other sort of session was asked for, all have several nodes: the killed ones too.
        if number % _EVERY == _HAS_MEMBERS or not {"node", clocks.CLOCK, *fullness.KINDS}.intersection(
            self.kinds
        ):
            left_out = (*left_out, "zygote", "spill")  # each node has a zygote, and room for all objects
        else:
            left_out = (*left_out, members.MEMBER)
        kinds = [kind for kind in self.kinds if kind not in left_out]
        if number % _EVERY == _LOSES_NODE and "node" in self.kinds:
            kinds = ["node"]
        report = Report()
        driver = _Driver(seed, kinds, self.folder, self.notes, cramped=cramped, turned=turned)
        try:
            session = driver.line("session ")
            if session is None:
                report.violations.append(f"seed {seed}: the session did not start: {driver.last_words()}")
            elif ends_early:
                time.sleep(dice.uniform(0.2, 3.0))
                driver.process.kill()
                report.kills["driver"] += 1
                report.counts["sessions"] += 1
            elif (text := driver.line("report ")) is None:
                report.violations.append(
                    f"seed {seed}: the driver ended without a report: {driver.last_words()}"
                )
            else:
                report.add(Report.from_json(text))
        except BaseException:  # the harness itself is to end
            driver.process.kill()
            raise
        finally:
            driver.close()
            for each in driver.sessions:
                processes.let_go_on(each)  # what it had stopped when it was killed
            clocks.tidy()
        for each in driver.sessions:
            report.violations.extend(_left_of(seed, each))
        if report.violations:
            again = f"python -m tests.chaos --seed {self.seed} --only {number} --kill {','.join(self.kinds)}"
            report.violations = [f"{violation}\n  again: {again}" for violation in report.violations]
        self.report.add(report)
        kills, errors = sum(report.kills.values()), sum(report.errors.values())
        self.say(
            f"session {number}: {report.counts['programs']} programs, {report.counts['reads']} reads, {kills} kills, "
            f"{errors} true errors, {len(report.violations)} violations"
        )
        for each in report.violations:  # at once: a long run may be cut short, and the session's logs soon go
            self.say(f"  {each}")


class _Driver:
    """The process that plays one session."""

    def __init__(
        self,
        seed: str,
        kinds: list[str],
        folder: str,
        notes: str,
        *,
        cramped: bool = False,
        turned: bool = False,
    ) -> None:
        source = str(Path(sundog.__file__).parents[1])
        command = [sys.executable, "-m", "tests.chaos.rounds", seed, ",".join(kinds)]
        places = {"SUNDOG_temp_dir": folder}
        if cramped:
            command, places = fullness.enclosed(command, folder)
        if turned:
            places |= clocks.shifted(folder)
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": source, "TMPDIR": notes, **places},
        )
        self.deadline = time.monotonic() + ROUND_MAX_S
        self.clock, self.longer = Clock(), _LONGER_TIMES
        self.errors: list[str] = []
        self.sessions: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._threads = [threading.Thread(target=self._read_out), threading.Thread(target=self._read_err)]
        for thread in self._threads:
            thread.start()

    def _read_out(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("session "):
                self.sessions.append(line.removeprefix("session ").strip())
            self._lines.put(line)
        self._lines.put(None)

    def _read_err(self) -> None:
        assert self.process.stderr is not None
        self.errors.extend(self.process.stderr)

    def line(self, start: str) -> str | None:
        """What follows `start` in the next line that begins so; None if the driver ends, or is made to."""
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, self.deadline - time.monotonic()))
            except queue.Empty:
                if self.longer and Span.of([self.clock.tick()]).starved():
                    self.longer -= 1
                    self.deadline = time.monotonic() + ROUND_MAX_S
                    continue
                self.process.send_signal(signal.SIGUSR1)  # it prints the stacks of all threads
                time.sleep(0.5)
                self.errors.append(stacks(self.process.pid))
                self.process.kill()
                return None
            if line is None:
                return None
            if line.startswith(start):
                return line.removeprefix(start).strip()

    def last_words(self) -> str:
        """What it wrote to its standard error."""
        self.process.wait()
        self._threads[1].join()
        return "".join(self.errors[-400:])

    def close(self) -> None:
        """Wait for its end, which the report announced, and collect the pipes."""
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for thread in self._threads:
            thread.join()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


def _left_of(seed: str, session: str) -> list[str]:
    """What should be gone with a session, and is not; nothing if all is well."""
    try:
        drivers.await_nothing_left(session)
    except AssertionError as error:
        return [f"seed {seed}: {error}"]
    spilled = [path for path in (Path(session) / "spilled_objects").rglob("*") if path.is_file()]
    return [f"seed {seed}: spilled objects left: {spilled}"] if spilled else []
