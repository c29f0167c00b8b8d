"""Signals over the main thread of a driver: their handler calls verbs of its own, or raises in the middle of a move.

Owns the handler of SIGALRM while a session is played, and the thread that sends it when the killers say so, a thousand
times a second. A storm excuses nothing: what the program reads, and what is left in the end, is judged as without one.

Moves that note more than refs (an actor's calls, a stream's items) would not know after an exception how far they
have come; in these the handler calls verbs, and does not raise.
"""

from __future__ import annotations

import random
import signal
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import sundog
from tests.chaos import object_moves, task_moves
from tests.chaos.contents import LARGE, content
from tests.chaos.program import PATIENCE_S, Program
from tests.chaos.report import Report

_PAUSE_S = (2e-4, 2e-3)
_TIMES = 12  # a move is left by an exception at most
_MAY_BE_LEFT = (
    object_moves.put,
    object_moves.read,
    object_moves.read_many,
    object_moves.read_impatiently,
    object_moves.wait,
    object_moves.drop,
    task_moves.make,
    task_moves.mix,
    task_moves.read_elsewhere,
    task_moves.nest,
)

_SHORT = (
    object_moves.put,
    object_moves.read,
    object_moves.read_impatiently,
    object_moves.drop,
    task_moves.make,
)


class Stormed(Exception):
    """What the handler raises."""


@sundog.remote(num_cpus=0.5, max_retries=-1)
def echo(value: Any) -> Any:
    """The same; whatever is killed, in the end it is given."""
    return value


class Storm(threading.Thread):
    """The storms of one session. Made, begun and ended on the main thread."""

    def __init__(self, seed: str, report: Report) -> None:
        super().__init__(name="chaos-storm", daemon=True)
        self.dice = random.Random(seed)
        self.report = report
        self._main = threading.get_ident()
        self._blows, self._ends = threading.Event(), threading.Event()
        self._until_s = 0.0
        self._may_raise = self._inside = False
        self._before = signal.signal(signal.SIGALRM, self._on_alarm)

    # ------------------------------------------------------------------ the killers' side
    def blow(self, seconds: float) -> None:
        """Send signals for so long, while others do something else."""
        self._until_s = time.monotonic() + seconds
        self._blows.set()

    def run(self) -> None:
        dice = random.Random(self.dice.random())
        while not self._ends.is_set():
            self._blows.wait()
            while time.monotonic() < self._until_s and not self._ends.wait(dice.uniform(*_PAUSE_S)):
                signal.pthread_kill(self._main, signal.SIGALRM)
            if not self._ends.is_set():
                self._blows.clear()

    def stop(self) -> None:
        """No more signals."""
        self._ends.set()
        self._blows.set()
        self.join()
        signal.signal(signal.SIGALRM, self._before)

    # ------------------------------------------------------------------ the program's side
    def play(self, move: Callable[[Program], None], program: Program) -> None:
        """Make a move of the program on the main thread, and short ones while a storm lasts."""
        self._play_once(move, program)
        for _ in range(_TIMES):
            if not self._blows.is_set():
                break
            self._play_once(self.dice.choice(_SHORT), program)

    def _play_once(self, move: Callable[[Program], None], program: Program) -> None:
        """One that was left is made again, as a program would."""
        for _ in range(_TIMES):
            try:
                self._may_raise = move in _MAY_BE_LEFT
                move(program)
                self._may_raise = False
                return
            except Stormed:
                self.report.counts["moves left"] += 1
            finally:
                self._may_raise = False  # also of a move that failed: what follows it may not be left
        move(program)

    def _on_alarm(self, _number: int, _frame: Any) -> None:
        self.report.counts["signals"] += 1
        if self._may_raise:
            self._may_raise = False
            raise Stormed
        if self._inside or self.dice.random() < 0.7:
            return  # or the main thread would do nothing else
        self._inside = True
        try:
            self._call()
        except Stormed:
            raise  # by a signal that came meanwhile
        except BaseException as error:
            text = "".join(traceback.format_exception(error))
            self.report.violations.append(f"in the handler of a signal: {text}")
        finally:
            self._inside = False

    def _call(self) -> None:
        """One verb, or two."""
        throw = self.dice.randrange(6)
        number = self.dice.random()
        if throw == 0:
            assert sundog.get(sundog.put({"number": number})) == {"number": number}
        elif throw == 1:
            sundog.put(content("storm", LARGE))  # not read: its copy may be removed
        elif throw == 2:
            assert sundog.get(echo.remote(number), timeout=PATIENCE_S) == number
        elif throw == 3:
            refs = [echo.remote(each) for each in range(3)]
            ready, rest = sundog.wait(refs, num_returns=2, timeout=PATIENCE_S)
            assert len(ready) == 2 and len(rest) == 1
        elif throw == 4:
            sundog.cancel(echo.remote(number))
        else:
            try:
                sundog.get_actor("nobody has this name")
            except ValueError:
                return
            raise AssertionError("an actor that nobody made")
