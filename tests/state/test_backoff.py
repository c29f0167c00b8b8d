"""The delays between attempts: their shape, their caps, and that they can be replayed."""

from __future__ import annotations

import pytest

from sundog.state import backoff


@pytest.mark.parametrize("why", [backoff.CRASH, backoff.EXCEPTION, backoff.TIMEOUT, backoff.RESTART])
def test_the_first_retry_comes_at_once(why: str) -> None:
    assert backoff.delay_s(1, why, b"task") == 0.0


def test_a_memory_kill_waits_from_the_first_time_on() -> None:
    assert 0.5 <= backoff.delay_s(1, backoff.MEMORY, b"task") <= 1.0


@pytest.mark.parametrize("why", list(backoff.SCHEDULES))
def test_delays_double_up_to_the_cap_and_jitter_takes_at_most_half(why: str) -> None:
    schedule = backoff.SCHEDULES[why]
    for attempt in (*range(1, 40), 10_000, 1 << 40):
        step = attempt - schedule.free
        full_s = min(schedule.cap_s, schedule.base_s * 2 ** min(step - 1, 50)) if step > 0 else 0.0
        for key in (b"", b"one", b"two"):
            assert full_s / 2 <= backoff.delay_s(attempt, why, key) <= full_s


def test_the_same_failure_has_the_same_delay_again() -> None:
    assert backoff.delay_s(5, backoff.MEMORY, b"task") == backoff.delay_s(5, backoff.MEMORY, b"task")


def test_tasks_that_failed_together_come_back_apart() -> None:
    keys = [b"owner---" + number.to_bytes(8, "little") for number in range(100)]
    delays = sorted(backoff.delay_s(4, backoff.MEMORY, key) for key in keys)
    assert len(set(delays)) == len(keys)
    # Spread over the whole range, not a cluster: each quarter of it has its share.
    for quarter in range(4):
        low, high = 4 + quarter, 5 + quarter
        assert sum(low <= delay <= high for delay in delays) >= 10


def test_a_reason_without_a_schedule_is_refused() -> None:
    with pytest.raises(ValueError, match="bad luck"):
        backoff.delay_s(1, "bad luck")
