"""Files of profiles."""

from __future__ import annotations

from pathlib import Path

from sundog.profiling import rows
from sundog.profiling.rows import Allocation, LineTimes, MemoryProfile, Part
from tests.profiling.parts import HOT, F, sampled


def test_a_part_is_read_as_it_was_written(tmp_path: Path) -> None:
    folder = str(tmp_path / "p")
    found = MemoryProfile(
        9, [Allocation("f", (F, HOT), 5, 2)], [Allocation("f", (F,), 4, 1)], {"f": (3, 9)}, "7.bin"
    )
    lines = [LineTimes("/x/f.py", 1, "f", {2: (10, 0.5)})]
    rows.begin(folder, "cpu", "x.py")
    for part in (sampled(7)._replace(memory=found), Part(8, "driver", "s", lines=lines)):
        rows.write_part(folder, part)
    assert rows.read(folder).parts == [sampled(7)._replace(memory=found), Part(8, "driver", "s", lines=lines)]


def test_a_damaged_profile_is_passed_over(tmp_path: Path) -> None:
    good, bad = str(tmp_path / "profiles" / "good"), tmp_path / "profiles" / "bad"
    rows.begin(good, "cpu", "x.py")
    bad.mkdir(mode=0o700)
    (bad / "profile.json").write_text("{")
    assert [each.id for each in rows.profiles_of(str(tmp_path))] == ["good"]
    assert rows.profiles_of(str(tmp_path / "nothing")) == []
