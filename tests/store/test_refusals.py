"""What the user reads when this process may not write an object, with the limits of the process really reached."""

from __future__ import annotations

import errno
import os
import resource
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sundog.exceptions import OutOfDiskError
from sundog.store import refusals
from sundog.store.segments import Segments
from tests.shortages import no_descriptor_free

MB = 1 << 20


@pytest.fixture
def segments(tmp_path: Path) -> Iterator[Segments]:
    (tmp_path / "shm").mkdir()
    segments = Segments(str(tmp_path / "shm"), str(tmp_path / "disk"), b"M" * 8, deque())
    yield segments
    segments.close()


@contextmanager
def limited(kind: int, soft: int) -> Iterator[None]:
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(kind, before)


def test_an_object_above_the_limit_of_files_names_the_limit_and_leaves_nothing(segments: Segments) -> None:
    with limited(resource.RLIMIT_FSIZE, MB), pytest.raises(OSError, match="ulimit -f unlimited") as caught:
        segments.write([memoryview(bytes(3 * MB))])
    assert caught.value.errno == errno.EFBIG and "1,048,576 bytes" in str(caught.value)
    assert os.listdir(segments.shm_root) == []
    assert len(segments.view(segments.write([memoryview(bytes(3 * MB))]), None)[0]) == 3 * MB


def test_a_process_without_a_free_descriptor_names_its_limit(segments: Segments) -> None:
    opened = len(os.listdir("/proc/self/fd"))
    fds: list[int] = []
    with (
        limited(resource.RLIMIT_NOFILE, opened + 20),
        pytest.raises(OSError, match="file descriptors") as caught,
    ):
        try:
            while True:
                fds.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            segments.write([memoryview(bytes(3 * MB))])
        finally:
            for fd in fds:
                os.close(fd)
    assert caught.value.errno == errno.EMFILE and "ulimit -n 1024" in str(caught.value)
    assert os.listdir(segments.shm_root) == []


def test_a_machine_without_a_free_file_is_told_as_such() -> None:
    error = refusals.named(OSError(errno.ENFILE, "Too many open files in system"), MB)
    assert error.errno == errno.ENFILE and "sysctl fs.file-max" in str(error)


def test_an_object_that_cannot_be_mapped_for_want_of_a_descriptor_names_the_limit_and_is_not_lost(
    segments: Segments,
) -> None:
    location = segments.write([memoryview(bytes(3 * MB))])
    with (
        no_descriptor_free(),
        pytest.raises(OSError, match="cannot be read: this process has used up") as caught,
    ):
        segments.view(location, None)
    assert caught.value.errno == errno.EMFILE and "ulimit -n" in str(caught.value)
    assert len(segments.view(location, None)[0]) == 3 * MB


def test_an_object_that_finds_no_address_space_names_the_limit_and_is_not_lost(segments: Segments) -> None:
    location = segments.write([memoryview(bytes(64 * MB))])
    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    with limited(resource.RLIMIT_AS, used + 8 * MB), pytest.raises(OSError, match="ulimit -v") as caught:
        segments.view(location, None)
    assert caught.value.errno == errno.ENOMEM
    assert len(segments.view(location, None)[0]) == 64 * MB


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.ENOSPC, r"has [\d,]+ bytes free\. .*larger disk.*df -h"),
        (errno.EDQUOT, "this user may have no more of it.*quota -s"),
        (errno.EROFS, "cannot be written: Read-only file system.*another disk.*findmnt -T"),
    ],
)
def test_an_object_that_fits_nowhere_says_what_each_place_said(
    segments: Segments, monkeypatch: pytest.MonkeyPatch, number: int, told: str
) -> None:
    """Neither place has a folder for it: the one for the disk is made when the first object goes there."""
    really = os.open

    def refuse(path: str, flags: int, *rest: int) -> int:
        if flags & os.O_CREAT:
            raise OSError(number, os.strerror(number), path)
        return really(path, flags, *rest)

    def refuse_folder(path: str, mode: int = 0o777, exist_ok: bool = False) -> None:
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "makedirs", refuse_folder)
    with pytest.raises(OutOfDiskError, match=told) as caught:
        segments.write([memoryview(bytes(3 * MB))])
    assert os.strerror(number) in str(caught.value) and "\n" not in str(caught.value)


def test_any_other_error_stays_what_it_is() -> None:
    error = OSError(errno.EROFS, "Read-only file system")
    assert refusals.named(error, MB) is error
