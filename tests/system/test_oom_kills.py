"""The kernel's counts of kills for memory: where they are, and what they say."""

from __future__ import annotations

from pathlib import Path

from sundog.system.oom_kills import own_counters, read_count, read_limit


def test_a_count_is_read_from_any_of_its_files(tmp_path: Path) -> None:
    file = tmp_path / "memory.events"
    file.write_text("low 0\noom 4\noom_kill 3\n")
    assert read_count(str(file)) == 3
    file.write_text("low 0\n")
    assert read_count(str(file)) is None
    assert read_count(str(tmp_path / "none")) is None


def test_a_limit_stands_beside_its_counter(tmp_path: Path) -> None:
    counter = str(tmp_path / "memory.events")
    (tmp_path / "memory.max").write_text("max\n")
    assert read_limit(counter) is None
    (tmp_path / "memory.max").write_text("4096\n")
    assert read_limit(counter) == 4096
    (tmp_path / "memory.max").write_text(f"{1 << 62}\n")
    assert read_limit(counter) is None


def test_this_machine_has_a_counter() -> None:
    assert [read_count(path) is not None for path in own_counters()] == [True]
