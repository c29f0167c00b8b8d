"""How the controller's loop does: how often it runs, how long a pass takes, how late it wakes up.

Owns the figures of the last passes, for `controller_health_metrics` of the REST interface. Knows no clock of its own:
the controller tells it when a pass began and ended. In the controller's loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from sundog.serve.instance_schema import ControllerHealthMetrics, DurationStats

_PASSES = 100  # passes that are kept


class LoopHealth:
    """The figures of one life of a controller."""

    def __init__(self, began_s: float) -> None:
        self._began_s = began_s
        self._passes = 0
        self._durations_s: deque[float] = deque(maxlen=_PASSES)
        self._deployments_s: deque[float] = deque(maxlen=_PASSES)
        self._applications_s: deque[float] = deque(maxlen=_PASSES)
        self._ended_s = 0.0
        self._slept_s = self._meant_s = 0.0
        self.reports = 0  # of processes that tell their load

    def passed(self, began_s: float, deployments_s: float, ended_s: float) -> None:
        """One pass over all plans: when it began, when it had looked at the deployments, and when it ended."""
        self._passes += 1
        self._durations_s.append(ended_s - began_s)
        self._deployments_s.append(deployments_s - began_s)
        self._applications_s.append(ended_s - deployments_s)
        self._ended_s = ended_s

    def slept(self, seconds: float, at_most_s: float) -> None:
        """The pause after a pass; it is shorter than meant when something happens."""
        self._slept_s, self._meant_s = seconds, at_most_s

    def told(self, now_s: float, tasks: int, memory_mb: float) -> ControllerHealthMetrics:
        """The figures, as the REST interface gives them."""
        uptime = now_s - self._began_s
        return ControllerHealthMetrics(
            timestamp=now_s,
            controller_start_time=self._began_s,
            uptime_s=uptime,
            last_control_loop_time=self._ended_s,
            num_control_loops=self._passes,
            loop_duration_s=stats_of(self._durations_s),
            loops_per_second=self._passes / uptime if uptime > 0 else 0.0,
            last_sleep_duration_s=self._slept_s,
            expected_sleep_duration_s=self._meant_s,
            event_loop_delay_s=max(0.0, self._slept_s - self._meant_s),
            num_asyncio_tasks=tasks,
            handle_reports_received=self.reports,
            ingest_reports_received=self.reports,
            deployment_state_update_duration_s=stats_of(self._deployments_s),
            application_state_update_duration_s=stats_of(self._applications_s),
            process_memory_mb=memory_mb,
        )


def stats_of(seconds: Sequence[float]) -> DurationStats | None:
    """Mean, deviation and bounds; None of nothing."""
    if not seconds:
        return None
    import statistics  # not with this module: the start of Serve would wait for it

    return DurationStats(
        mean=statistics.fmean(seconds), std=statistics.pstdev(seconds), min=min(seconds), max=max(seconds)
    )
