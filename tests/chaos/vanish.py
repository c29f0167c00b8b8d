"""``python -m tests.chaos.vanish``: SIGKILL of one process at a random moment, and how long until nothing is left.

::

    a driver program, in a session below a folder of its own ── SIGKILL ──► driver, node, zygote, worker, idle, actor
        driver, node:  time from the kill until no process, shared memory or socket of the session is left
        the others:    time until the killed one and what it made are gone; the program goes on or gets typed
                       errors, ends by itself, and then nothing is left either

Owns the moments, the aim and the clock. The promise is 2 s on a machine that has time to give: time that a process of
the session spent ready to run while others had the processor (`/proc/<pid>/schedstat`) is not counted against it.
Every kill has a number, and the seed with the number fixes victim, moment and delay. Runs real processes.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import psutil

from tests.chaos.stalls import Clock, Span, stacks
from tests.integration import drivers

VICTIMS = ("driver", "node", "zygote", "worker", "idle", "actor")
# What the driver does after it has printed "now", and how long that lasts at most.
MOMENTS = {
    "starting": 0.25,
    "idle": 0.05,
    "tasks": 0.3,
    "nested": 0.3,
    "actors": 0.3,
    "puts": 0.3,
    "spilling": 0.6,
    "children": 0.2,
    "printing": 0.3,
    "shutdown": 0.04,
}
_FIND_S = 1.0
_PATIENCE_TIMES = 10  # of half a minute each, if the kernel says that our processes were not let run
_T = TypeVar("_T")

PROGRAM = """
    import os, subprocess, sys, time, threading
    moment = sys.argv[1]
    typed, done = [], []
    last = threading.Timer(0.9, lambda: done.append(1))

    def guarded(call):
        try:
            return call()
        except ray.exceptions.RayError as error:
            typed.append(type(error).__name__)
            done.append(1)
            return None

    @ray.remote
    def quick(x): return len(x)
    @ray.remote
    def where(): return os.getpid()
    @ray.remote
    def outer(): return sum(ray.get([quick.remote(b"xy") for _ in range(5)]))
    @ray.remote
    def shell(): return subprocess.Popen(["sleep", "1000"], start_new_session=True).pid
    @ray.remote
    def talk(): print("x" * 2000)
    @ray.remote
    class Keeper:
        def pid(self): return os.getpid()
        def make(self): return bytes(300_000)

    def moments():
        if moment == "starting":
            print("now", flush=True)
            last.start()
        store = 80 << 20 if moment == "spilling" else None
        ray.init(num_cpus=2, object_store_memory=store)
        keeper = Keeper.remote()
        print("pids", *ray.get([keeper.pid.remote(), where.remote()]), flush=True)
        if moment != "starting":
            print("now", flush=True)
            last.start()
        held = []
        steps = {
            "tasks": lambda: ray.get([quick.remote(bytes(2000)) for _ in range(200)]),
            "nested": lambda: ray.get([outer.remote() for _ in range(10)]),
            "actors": lambda: ray.get([keeper.make.remote() for _ in range(5)]),
            "puts": lambda: ray.get(quick.remote(ray.put(bytes(3 << 20)))),
            "spilling": lambda: (held.append(ray.put(bytes(8 << 20))), held[20:] and held.pop(0)),
            "children": lambda: ray.get(shell.remote()),
            "printing": lambda: ray.get([talk.remote() for _ in range(20)]),
        }
        step = steps.get(moment, lambda: time.sleep(0.02))
        while not done and moment != "shutdown":
            guarded(step)

    guarded(moments)
    guarded(ray.shutdown)
    print("ended", *typed, flush=True)
    os._exit(0)
    """


class Kill(NamedTuple):
    """What one kill came to."""

    number: int
    victim: str
    moment: str
    delay_s: float
    gone_s: float  # from the kill until nothing of it was left
    end_s: float  # from the driver's end until nothing of the session was left
    starved_s: float  # of the longer of the two: time spent ready to run, and waiting for a processor
    errors: tuple[str, ...]

    def late(self) -> bool:
        """Whether the promise was broken."""
        return max(self.gone_s, self.end_s) - self.starved_s > drivers.VANISH_S

    def text(self) -> str:
        """One line."""
        return (
            f"{self.number:4} {self.victim:7} {self.moment:9} after {self.delay_s * 1e3:5.0f} ms: gone in "
            f"{self.gone_s * 1e3:6.1f} ms, session in {self.end_s * 1e3:6.1f} ms"
            + (f", {' '.join(self.errors)}" if self.errors else "")
        )


class Missed(Exception):
    """The victim was not there (any more): no kill was made."""


def plan(seed: int, number: int) -> tuple[str, str, float]:
    """Victim, moment, and how long after the moment's beginning."""
    choice = random.Random(f"{seed}/{number}")
    victim, moment = choice.choice(VICTIMS), choice.choice(list(MOMENTS))
    return victim, moment, choice.random() * MOMENTS[moment]


def kill_one(seed: int, number: int) -> Kill:
    """Play one session and kill one process of it.

    Raises:
        Missed: there was nobody to kill.
        AssertionError: the program hung, or ended with an error that has no type of ours.
    """
    victim, moment, delay_s = plan(seed, number)
    folder = Path(tempfile.mkdtemp(prefix="sdv-", dir="/tmp"))
    try:
        with drivers.running(PROGRAM, moment, SUNDOG_temp_dir=str(folder)) as driver:
            pids = _await_moment(driver, moment)
            until = time.monotonic() + delay_s
            target = _find(driver, victim, pids)
            time.sleep(max(0.0, until - time.monotonic()))
            if not _is_ours(target, folder, driver):
                raise Missed(f"{victim} in {moment}")
            return _strike(driver, folder, target, number, victim, moment, delay_s)
    finally:
        for pid in psutil.pids():  # what broke the promise shall not slow the next one down
            if pid != os.getpid() and drivers.mentions(pid, str(folder)):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


def _await_moment(driver: drivers.Driver, moment: str) -> list[int]:
    first = _patiently(driver, driver.line)
    if moment == "starting":
        assert first == "now", first
        return []
    pids = [int(word) for word in first.split()[1:]]
    assert _patiently(driver, driver.line) == "now"
    return pids


def _patiently(driver: drivers.Driver, ask: Callable[[], _T]) -> _T:
    """What a driver answers, asked again while the machine starves it.

    Raises:
        AssertionError: it did not answer, and had the processors to do so; with the stacks of its session.
    """
    clock, left = Clock(), _PATIENCE_TIMES
    while True:
        left -= 1
        try:
            return ask()
        except (AssertionError, subprocess.TimeoutExpired) as error:
            span = Span.of([clock.tick()])
            if driver.process.poll() is not None:
                raise AssertionError(str(error)) from None
            if not left or not span.starved():
                raise AssertionError(f"{error}; {span.text()}\n{stacks(driver.pid)}") from None


def _find(driver: drivers.Driver, victim: str, pids: list[int]) -> int:
    """The pid of a victim, waited for as it comes up."""
    find: Callable[[], int]
    if victim == "driver":
        return driver.pid
    if victim == "node":
        find = lambda: _children(driver.pid)[0]  # noqa: E731
    elif victim == "zygote":
        find = lambda: _children(_children(driver.pid)[0])[0]  # noqa: E731
    elif victim in ("actor", "worker") and pids:
        return pids[0 if victim == "actor" else 1]
    else:
        find = lambda: _children(_children(_children(driver.pid)[0])[0])[-1]  # noqa: E731
    deadline = time.monotonic() + _FIND_S
    while time.monotonic() < deadline and driver.process.poll() is None:
        with contextlib.suppress(IndexError, OSError):
            return find()
    raise Missed(victim)


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _is_ours(pid: int, folder: Path, driver: drivers.Driver) -> bool:
    return pid == driver.pid or drivers.mentions(pid, str(folder))


def _strike(
    driver: drivers.Driver, folder: Path, target: int, number: int, victim: str, moment: str, delay_s: float
) -> Kill:
    ending = victim in ("driver", "node")
    struck = drivers.Vanishing()
    os.kill(target, signal.SIGKILL)
    if victim == "driver":
        driver.process.wait()
    # A program whose node was killed lives on to say so; it is not what the session left.
    ours = {driver.pid}
    if ending:
        struck.wait(lambda: left_below(folder, ours))
    else:
        struck.wait(lambda: [f"process {target}"] if _is_ours(target, folder, driver) else [])
    gone_s, starved_s = struck.elapsed_s(), struck.starved_s()
    errors: tuple[str, ...] = ()
    end_s = 0.0
    if victim != "driver":
        lines = [line for line in _patiently(driver, driver.rest) if line.startswith("ended")]
        ended = drivers.Vanishing()
        driver.close()
        assert lines and driver.process.returncode == 0, f"an error without a type:\n{''.join(driver.errors)}"
        errors = tuple(lines[0].split()[1:])
        ended.wait(lambda: left_below(folder, set()))
        end_s = ended.elapsed_s()
        starved_s = max(starved_s, ended.starved_s())
    return Kill(number, victim, moment, delay_s, gone_s, end_s, starved_s, errors)


def left_below(folder: Path, ours: set[int]) -> list[str]:
    """What is left of the sessions below a folder: processes, shared memory, sockets."""
    return drivers.left_of(str(folder), ours)


def run(kills: int, seed: int, say: Callable[[str], None]) -> tuple[list[Kill], list[str]]:
    """Make so many kills; returns them and what broke the promise."""
    made: list[Kill] = []
    broken: list[str] = []
    number = 0
    while len(made) + len(broken) < kills:
        number += 1
        try:
            kill = kill_one(seed, number)
        except Missed:
            continue
        except AssertionError as error:
            broken.append(f"{number}: {plan(seed, number)[:2]}: {error}")
            say(broken[-1])
            continue
        made.append(kill)
        say(kill.text())
        if kill.late():
            broken.append(f"later than {drivers.VANISH_S} s: {kill.text()}")
    return made, broken


def summary(made: list[Kill]) -> str:
    """The distribution, by victim."""
    rows = [f"{'':8} kills  median    p95    max (ms until gone)  max (ms until the session is)"]
    for victim in VICTIMS:
        times = sorted(kill.gone_s * 1e3 for kill in made if kill.victim == victim)
        if times:
            ends = max(kill.end_s for kill in made if kill.victim == victim) * 1e3
            p95 = times[min(len(times) - 1, int(len(times) * 0.95))]
            rows.append(
                f"{victim:8} {len(times):5} {times[len(times) // 2]:7.0f} {p95:6.0f} {times[-1]:6.0f} {ends:26.0f}"
            )
    return "\n".join(rows)


def main(argv: Sequence[str]) -> int:
    """Run, print each kill and the distribution; exit status 1 if the promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.vanish", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this kill of the seed alone")
    options = parser.parse_args(argv)
    print(f"seed {options.seed}, {options.kills} kills", flush=True)
    if options.only is not None:
        print(kill_one(options.seed, options.only).text())
        return 0
    made, broken = run(options.kills, options.seed, lambda line: print(line, flush=True))
    print(summary(made))
    print(f"{len(broken)} broken promises", *broken, sep="\n  ")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
