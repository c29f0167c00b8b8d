"""Progress of functions between two looks: counts, rates, time left."""

from typing import Any

from sundog.observe.activity import Function, FunctionRates, since, tally
from sundog.wire.looks import Pulse, RunningCall, WaitingTasks


def figures(count: int, failed: int = 0) -> dict[str, Any]:
    return {
        "count": count,
        "failed": failed,
        "total_s": 2.0,
        "total_cpu_s": 1.0,
        "duration_s": {"mean": 0.5},
        "peak_memory": {"max": 7.0},
    }


def test_what_runs_waits_and_ended_is_counted_once_each() -> None:
    owner = Pulse((), (WaitingTasks("f", arguments=1, worker=2, sent=3), WaitingTasks("g", 0, 0, 1)))
    worker = Pulse((RunningCall("a", "f", 1.0), RunningCall("b", "h", 1.0)), ())
    found = {each.name: each for each in tally([owner, worker], {"f": figures(10, 4)})}
    assert (found["f"].done, found["f"].failed, found["f"].running, found["f"].waiting) == (6, 4, 1, 5)
    assert (found["f"].ended, found["f"].total) == (10, 16)
    assert (found["g"].waiting, found["h"].running) == (1, 1)


def test_a_call_that_its_owner_no_longer_counts_makes_nothing_negative() -> None:
    [row] = tally([Pulse((RunningCall("a", "f", 1.0),), (WaitingTasks("f", 0, 0, 0),))], {})
    assert (row.running, row.waiting) == (1, 0)


def test_a_rate_is_what_ended_between_two_looks_and_gives_the_time_left() -> None:
    pace = FunctionRates()
    first = Function("f", done=10, waiting=30)
    pace.apply([first], 100.0)
    assert (first.rate, first.left_s) == (0.0, None)
    second = Function("f", done=20, running=5, waiting=15)
    pace.apply([second], 102.0)
    assert (second.rate, second.left_s) == (5.0, 4.0)
    slower = Function("f", done=20, waiting=15)
    pace.apply([slower], 103.0)
    assert 0 < slower.rate < 5.0


def test_what_had_ended_before_is_left_out() -> None:
    functions = [Function("old", done=3), Function("f", done=5, failed=1, running=1)]
    [left] = since(functions, {"old": (3, 0), "f": (2, 1)})
    assert (left.name, left.done, left.failed) == ("f", 3, 0)
