"""The gauge of file descriptors: it looks seldom, and keeps some free."""

from __future__ import annotations

import errno
import os
import resource

import pytest

from sundog.system.descriptors import DescriptorGauge, apart, is_still, mark_of, raise_limit, read
from tests.shortages import no_descriptor_free


class Process:
    """A process whose descriptors the test counts; time passes when it says so."""

    def __init__(self, used: int, limit: int) -> None:
        self.used, self.limit, self.now, self.looks = used, limit, 0.0, 0
        self.gauge = DescriptorGauge(7, self._read, lambda: self.now)

    def _read(self, pid: int) -> tuple[int, int]:
        self.looks += 1
        return self.used, self.limit

    def take_all(self) -> int:
        taken = 0
        while self.gauge.take(1):
            self.used += 1
            taken += 1
        return taken


@pytest.mark.parametrize(("limit", "kept"), [(80, 10), (1024, 128), (4096, 128)])
def test_some_descriptors_are_kept_free(limit: int, kept: int) -> None:
    process = Process(10, limit)
    assert process.take_all() == limit - kept - 10


def test_a_thousand_takes_need_a_handful_of_looks() -> None:
    process = Process(10, 20_000)
    assert all(process.gauge.take(2) for _ in range(1000))
    assert process.looks == 1


def test_what_was_given_back_is_noticed_by_looking_again() -> None:
    process = Process(0, 80)
    process.take_all()
    assert not process.gauge.take(1)
    process.used -= 5
    process.now += 1.0
    assert process.take_all() == 5


def test_while_there_is_no_room_it_does_not_look_all_the_time() -> None:
    process = Process(80, 80)
    for _ in range(100):
        assert not process.gauge.take(1)
    assert process.looks == 1
    assert "80 of the 80 file descriptors" in process.gauge.text("The node")


def test_a_process_that_is_gone_holds_nobody_back() -> None:
    def gone(pid: int) -> tuple[int, int]:
        raise ProcessLookupError

    assert DescriptorGauge(7, gone).take(5)


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(200, before[1]), before[1]))
        raise_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
        assert read(os.getpid())[1] == before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_process_that_has_not_one_left_to_count_them_with_has_no_room() -> None:
    gauge = DescriptorGauge(os.getpid())
    with no_descriptor_free():
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        assert not gauge.take(1)
        assert f"{limit} of the {limit} file descriptors" in gauge.text("This program")
    gauge.used_up()
    assert gauge.take(1)


def test_a_descriptor_stands_apart_from_the_lowest_free_numbers() -> None:
    fd = os.open("/dev/null", os.O_RDONLY)
    mark = mark_of(fd)
    high = apart(fd)
    try:
        assert high >= 512 and is_still(high, mark) and not is_still(fd, mark)
        assert not os.get_inheritable(high)
    finally:
        os.close(high)


def test_a_descriptor_keeps_its_number_where_the_limit_is_low(monkeypatch: pytest.MonkeyPatch) -> None:
    fd = os.open("/dev/null", os.O_RDONLY)
    monkeypatch.setattr("sundog.system.descriptors._APART", 1 << 30)
    assert apart(fd) == fd
    os.close(fd)


def test_another_file_under_the_same_number_is_not_the_same() -> None:
    read, write = os.pipe()
    mark = mark_of(read)
    other = os.open("/dev/null", os.O_RDONLY)
    os.dup2(other, read)
    assert not is_still(read, mark)
    for fd in (read, write, other):
        os.close(fd)
    assert not is_still(read, mark)


def test_a_machine_whose_open_files_are_used_up_is_told_from_a_process_without_descriptors() -> None:
    process = Process(20, 1024)
    assert process.gauge.take(1)
    process.gauge.used_up()  # the kernel refused one all the same
    assert "The machine has used up its open files" in process.gauge.text("This program")
    process.used = 1000
    process.gauge.used_up()
    assert "has 1000 of the 1024 file descriptors" in process.gauge.text("This program")


def test_a_machine_on_which_not_even_the_descriptors_can_be_counted_is_told_as_such() -> None:
    def refuse(_pid: int) -> tuple[int, int]:
        raise OSError(errno.ENFILE, "Too many open files in system")

    gauge = DescriptorGauge(7, refuse)
    assert not gauge.take(1)
    assert "sysctl fs.file-max" in gauge.text("This program")
