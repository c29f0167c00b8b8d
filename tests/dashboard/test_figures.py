"""Figures of a look: counts by state, and families."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sundog.dashboard.facts import FactTail
from sundog.dashboard.figures import (
    FUNCTIONS_MAX,
    NodeReader,
    ProcessFigures,
    SessionLook,
    _bounded,
    count_retries,
    count_tasks,
    families,
)
from sundog.wire.looks import Pulse, RunningCall, WaitingTasks, Who

if TYPE_CHECKING:
    from sundog.observe.usage import FunctionFigures
    from sundog.wire.status import SessionStatus

SPREAD = {"mean": 1.0, "p95": 2.0, "max": 3.0}
FIGURES: FunctionFigures = {
    "count": 5,
    "failed": 2,
    "lost": 1,
    "retried": 1,
    "retried_failed": 1,
    "total_s": 5.0,
    "total_cpu_s": 2.5,
    "duration_s": SPREAD,
    "cpu_s": SPREAD,
    "peak_memory": SPREAD,
}
STATUS: SessionStatus = {
    "uptime_s": 3.0,
    "pid": 1,
    "resources": {"total": {"CPU": 2.0}, "available": {"CPU": 0.5}},
    "pending": [
        {
            "shape": {"CPU": 1.0},
            "count": 3,
            "waited_s": 1.0,
            "why": "waiting for CPU",
            "infeasible": False,
            "owner": "ab",
            "depth": 0,
            "kind": 0,
        }
    ],
    "leases": 2,
    "store": {"used_bytes": 7, "limit_bytes": 9, "segments": 1, "spilled_bytes": 4, "spilled_objects": 2},
}


def make_look() -> SessionLook:
    who = Who(12, "ab", "worker", "actor", "01", 0.0, "a1", "A", "")
    return SessionLook(
        1.0,
        "session_x",
        True,
        {("f", "RUNNING"): 1},
        {"f": FIGURES},
        {("A", "ALIVE"): 1},
        {"CREATED": 2},
        STATUS,
        [ProcessFigures(who, "A.m", 0.5, 100, 60)],
    )


def test_tasks_are_counted_by_state_from_pulses_and_totals() -> None:
    pulses = [
        Pulse((), (WaitingTasks("f", arguments=1, worker=2, sent=3),)),
        Pulse((RunningCall("t", "f", 0.0),), ()),
    ]
    assert count_tasks(pulses, {"f": FIGURES}) == {
        ("f", "PENDING_ARGS_AVAIL"): 1,
        ("f", "PENDING_NODE_ASSIGNMENT"): 2,
        ("f", "SUBMITTED_TO_WORKER"): 2,
        ("f", "RUNNING"): 1,
        ("f", "FAILED"): 2,
        ("f", "FINISHED"): 3,
    }


def test_of_the_same_tasks_those_that_are_tried_again_are_counted() -> None:
    calls = (RunningCall("a", "f", 1.0, 2), RunningCall("b", "f", 1.0))
    pulses = [Pulse(calls, (WaitingTasks("f", 2, 3, 4, (1, 0, 3)),))]
    assert count_retries(pulses, {"f": FIGURES}) == {
        ("f", "PENDING_ARGS_AVAIL"): 1,
        ("f", "SUBMITTED_TO_WORKER"): 2,
        ("f", "RUNNING"): 1,
        ("f", "FAILED"): 1,
    }


def test_the_functions_that_ran_most_often_are_kept() -> None:
    many: dict[str, FunctionFigures] = {
        f"f{number}": {**FIGURES, "count": number} for number in range(FUNCTIONS_MAX + 5)
    }
    kept = _bounded(many)
    assert len(kept) == FUNCTIONS_MAX and "f0" not in kept and f"f{FUNCTIONS_MAX + 4}" in kept


def test_every_figure_of_a_look_is_in_a_family(tmp_path: object) -> None:
    found = {family.name: family for family in families(make_look(), FactTail(str(tmp_path)))}
    assert found["sundog_tasks"].samples == [({"function": "f", "state": "RUNNING"}, 1.0)]
    assert ({"name": "CPU", "state": "used"}, 1.5) in found["sundog_resources"].samples
    assert found["sundog_function_failures"].samples == [({"function": "f"}, 2.0)]
    assert found["sundog_spilled_bytes"].samples == [({}, 4.0)]
    assert found["sundog_process_own_bytes"].samples == [
        ({"pid": "12", "kind": "worker", "actor": "A"}, 60.0)
    ]
    assert found["sundog_waiting_leases"].samples == [({"reason": "resources"}, 3.0)]


def test_the_machine_is_read_and_speeds_are_never_negative(tmp_path: object) -> None:
    reader = NodeReader(str(tmp_path))
    first, second = reader.read(), reader.read()
    assert first["cpus"] >= 1 and 0 <= second["cpu_share"] <= 1
    assert second["memory_total"] >= second["memory_used"] > 0
    assert all(second[f"{name}_speed"] >= 0 for name in ("network_sent", "disk_read"))
