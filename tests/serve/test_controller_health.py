"""How the controller's loop does."""

from __future__ import annotations

import pytest

from sundog.serve.controller_health import LoopHealth, stats_of


def test_passes_are_counted_and_timed() -> None:
    health = LoopHealth(100.0)
    health.passed(101.0, 101.2, 101.5)
    health.passed(102.0, 102.1, 102.3)
    health.slept(1.25, 1.0)
    health.reports = 3
    found = health.told(110.0, 7, 50.5)

    assert (found.num_control_loops, found.uptime_s, found.loops_per_second) == (2, 10.0, 0.2)
    assert found.loop_duration_s is not None and found.deployment_state_update_duration_s is not None
    assert found.loop_duration_s.max == pytest.approx(0.5) and found.loop_duration_s.mean == pytest.approx(
        0.4
    )
    assert found.deployment_state_update_duration_s.min == pytest.approx(0.1)
    assert (found.last_control_loop_time, found.event_loop_delay_s) == (102.3, 0.25)
    assert (found.num_asyncio_tasks, found.process_memory_mb, found.handle_reports_received) == (7, 50.5, 3)


def test_a_controller_that_has_just_begun_has_no_figures() -> None:
    found = LoopHealth(100.0).told(100.0, 1, 1.0)
    assert found.loop_duration_s is None and found.loops_per_second == 0
    assert stats_of([]) is None
