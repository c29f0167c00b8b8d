"""Files of capsules."""

from __future__ import annotations

from pathlib import Path

import pytest

from sundog.capsules import rows
from sundog.capsules.rows import Packed
from tests.capsules.made import HEADER, contents


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
