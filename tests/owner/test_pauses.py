"""The clock that stands still while somebody debugs a task."""

from __future__ import annotations

import pytest

from sundog.owner.pauses import KnownPauses
from sundog.wire.control import PauseCounts


def test_time_in_which_a_task_stands_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("sundog.owner.pauses.time.monotonic", lambda: now[0])
    clock = KnownPauses()
    began = clock.total_s()
    now[0] = 105.0
    assert clock.owed_s(began) == 0.0
    clock.told(PauseCounts(1, 0))
    now[0] = 107.0
    assert clock.owed_s(began) == 2.0
    clock.told(PauseCounts(2, 1))
    now[0] = 110.0
    clock.told(PauseCounts(0, 0))
    now[0] = 120.0
    assert clock.total_s() == 5.0 and clock.owed_s(began) == 5.0 and clock.owed_s(clock.total_s()) == 0.0


def test_an_end_waits_for_prompts_but_not_for_a_session_that_is_over(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = KnownPauses()
    clock.await_prompts(lambda: False)
    clock.told(PauseCounts(1, 1))
    looks = iter([False, True])
    clock.await_prompts(lambda: next(looks))
