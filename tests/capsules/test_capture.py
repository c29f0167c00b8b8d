"""What goes into a capsule: paces, secrets, digests, outcomes; and what comes out of its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sundog.capsules import capture, replay, rows
from sundog.capsules.rows import Contents, Header, Lent, Outcome, Packed
from sundog.serialize.pack import pack

HEADER = Header(
    "ab" * 16, 0, "f", "task", "f", "f.py:1", "", Outcome("ValueError", "no"), 1.0, "session", 1, {}, {}
)


def contents(**fields: Any) -> Contents:
    given = dict.fromkeys(Contents._fields, None) | {
        "values": (),
        "nested": {},
        "method": "",
        "actor_state": b"",
    }
    return Contents(**{**given, **fields})


def test_a_flood_of_failures_keeps_the_first_twenty_and_then_one_a_second() -> None:
    now = [100.0]
    pace = capture.Pace(lambda: now[0])
    kept = 0
    for _ in range(1000):
        kept += pace.allows("f")
        now[0] += 0.01
    assert kept == 20 + 9
    assert pace.allows("g"), "each function has its own pace"


def test_variables_that_look_like_secrets_are_left_out() -> None:
    environ = {
        "HOME": "/",
        "API_TOKEN": "x",
        "my_password": "x",
        "URL": "http://me:pw@host",
        "PLAIN": "http://host",
    }
    assert capture.without_secrets(environ) == {"HOME": "/", "PLAIN": "http://host"}


def test_a_file_gives_back_what_was_written_and_its_header_needs_no_opening(tmp_path: Path) -> None:
    path = str(tmp_path / "a.capsule")
    rows.write(path, HEADER, contents(function=b"not a pickle", args=Packed(b"x")))
    assert rows.read_header(path).outcome == HEADER.outcome
    assert rows.read_contents(path).function == b"not a pickle"
    assert Path(path).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "data", [b"", b"something else", rows.MAGIC + b"\xff" * 8, rows.MAGIC + b"\2" + b"\0" * 7 + b"{}"]
)
def test_a_file_that_is_no_capsule_is_refused_in_one_sentence(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.capsule"
    path.write_bytes(data)
    with pytest.raises(rows.NotACapsule, match=r"capsule|damaged"):
        rows.read_header(str(path))


def test_the_oldest_capsules_go_when_the_quota_is_spent(tmp_path: Path) -> None:
    for number in range(5):
        kept = capture.keep(str(tmp_path), HEADER._replace(attempt=number), contents(), 1 << 20, 3)
        assert Path(kept).exists()
    assert len(list((tmp_path / "capsules").iterdir())) == 3
    capture.keep(str(tmp_path), HEADER._replace(attempt=9), contents(function=b"x" * 5000), 5600, 3)
    assert [path.stem[-2:] for path in (tmp_path / "capsules").iterdir()] == ["-9"]


def test_an_argument_that_is_too_large_is_known_again_or_said_to_be_gone(tmp_path: Path) -> None:
    import numpy as np

    array = np.arange(100_000.0)
    meta, buffers, _ = pack((array,), 1 << 16)
    assert buffers is not None
    (tmp_path / "segment").write_bytes(bytes(buffers[0]))
    location = ("segment", 0, ((0, buffers[0].nbytes),))
    packer = capture.Packer(1000, lambda *_: buffers, str(tmp_path))
    packed = packer.arguments(("obj", b"\1" * 20, meta, location))
    assert packed is not None and isinstance(packed.buffers, Lent) and len(packer.absent) == 1
    args, _ = replay._arguments(packed, (), {})
    assert (args[0] == array).all()
    del args
    (tmp_path / "segment").write_bytes(b"\0" * buffers[0].nbytes)
    with pytest.raises(replay.CannotReplay, match="too large for the capsule, and its object is gone"):
        replay._arguments(packed, (), {})


def test_outcomes_are_the_same_by_error_and_text_or_by_the_bytes_of_the_result() -> None:
    assert Outcome("E", "a", "x.py:1").is_same(Outcome("E", "a", "x.py:2"))
    assert not Outcome("E", "a").is_same(Outcome("E", "b")) and not Outcome("E", "a").is_same(Outcome())
    first, second = capture.outcome_of_result([1, 2]), capture.outcome_of_result([1, 2])
    assert first.is_same(second) and not first.is_same(capture.outcome_of_result([1, 3]))
    assert "Another outcome. Then it raised E: a. Now it returned [1, 2]" in replay.compare(
        Outcome("E", "a"), first
    )
