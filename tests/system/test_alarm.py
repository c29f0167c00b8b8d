"""The kernel's timer as a descriptor among others."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator

import pytest

from sundog.system.alarm import Alarm


@pytest.fixture
def alarm() -> Iterator[Alarm]:
    made = Alarm()
    yield made
    made.close()


def is_ringing(alarm: Alarm, timeout_s: float) -> bool:
    return bool(select.select([alarm.fd], [], [], timeout_s)[0])


def test_it_rings_at_its_moment_and_not_before(alarm: Alarm) -> None:
    due_s = time.monotonic() + 0.05
    alarm.set(due_s)
    assert is_ringing(alarm, 10)
    assert time.monotonic() >= due_s


def test_a_moment_that_is_past_rings_at_once(alarm: Alarm) -> None:
    alarm.set(time.monotonic() - 5)
    assert is_ringing(alarm, 10)
    alarm.hush()
    assert not is_ringing(alarm, 0)
    alarm.hush()


def test_it_can_be_set_again_and_called_off(alarm: Alarm) -> None:
    alarm.set(time.monotonic())
    alarm.set(None)
    assert not is_ringing(alarm, 0)
    alarm.set(time.monotonic() + 3600)
    alarm.set(time.monotonic())
    assert is_ringing(alarm, 10)


def test_closing_twice_closes_once(alarm: Alarm) -> None:
    alarm.close()
    alarm.close()


def test_a_file_of_the_program_that_took_the_number_stays_open() -> None:
    alarm = Alarm()
    number = alarm.fd
    users = os.open("/dev/null", os.O_RDONLY)
    os.dup2(users, number)
    alarm.close()
    os.close(number)  # still open
    os.close(users)
