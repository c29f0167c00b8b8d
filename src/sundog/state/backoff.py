"""How long to wait before something that failed is tried again.

Owns: the schedules, one for each reason. Refuses: deciding *whether* to try again, and waiting; the programs around
it have clocks. Pure arithmetic: the same failure has the same delay in every replay, and yet tasks that failed
together do not come back together, for the jitter is drawn from their ids. Used by owners (tasks and calls) and by
the node's actor machine (restarts). ::

    failures so far    1       2       3       4     …
    exception          0 s     0.01    0.02    0.04  … 0.2 s    Ray does not wait at all: only a spin is prevented
    crash              0 s     0.05    0.1     0.2   … 1 s      people expect the first retry at once
    restart            0 s     0.05    0.1     0.2   … 1 s      of an actor that dies young, again and again
    memory             1 s     2       4       8     … 60 s     other work has to finish first

The jitter takes up to half of a delay away and never adds to it, so a schedule's cap is what it says.
"""

from __future__ import annotations

from zlib import crc32

from sundog.plain import NamedTuple

CRASH = "crash"
EXCEPTION = "exception"
TIMEOUT = "timeout"
RESTART = "restart"
MEMORY = "memory"


class Schedule(NamedTuple):
    """Delays for one reason: `free` retries at once, then `base_s` doubling up to `cap_s`."""

    free: int
    base_s: float
    cap_s: float


SCHEDULES = {
    CRASH: Schedule(1, 0.05, 1.0),
    EXCEPTION: Schedule(1, 0.01, 0.2),
    TIMEOUT: Schedule(1, 0.01, 0.2),
    RESTART: Schedule(1, 0.05, 1.0),
    MEMORY: Schedule(0, 1.0, 60.0),
}


def delay_s(attempt: int, why: str, key: bytes = b"") -> float:
    """Seconds before the next attempt, after `attempt` failed ones.

    Args:
        attempt: how many attempts have failed, from 1: the number of the attempt that is to come.
        why: `CRASH`, `EXCEPTION`, `TIMEOUT`, `RESTART` or `MEMORY`.
        key: whose attempt it is (a task's id); spreads those that failed at the same moment.

    Raises:
        ValueError: there is no schedule for `why`.

    >>> delay_s(1, CRASH), 0.025 <= delay_s(2, CRASH, b"task") <= 0.05
    (0.0, True)
    """
    schedule = SCHEDULES.get(why)
    if schedule is None:
        raise ValueError(f"there is no schedule of retries for {why!r}, only for {', '.join(SCHEDULES)}")
    step = attempt - schedule.free
    if step <= 0:
        return 0.0
    # The exponent is bounded first: attempts without a limit would overflow a float.
    full_s = min(schedule.cap_s, schedule.base_s * 2.0 ** min(step - 1, 64))
    share = crc32(key + attempt.to_bytes(8, "little")) / (1 << 32)
    return full_s * (1.0 - share / 2)
