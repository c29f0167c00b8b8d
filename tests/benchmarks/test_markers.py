"""The sections of pages that the benchmark writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.markers import END, START, replace_section, update_file


def test_only_what_stands_between_the_markers_changes() -> None:
    text = f"# Title\n\n{START}\nold\n{END}\n\nrest\n"
    assert replace_section(text, "new\n") == f"# Title\n\n{START}\nnew\n{END}\n\nrest\n"


def test_writing_the_same_section_twice_changes_nothing() -> None:
    once = replace_section(f"{START}{END}", "table")
    assert replace_section(once, "table") == once


@pytest.mark.parametrize("text", ["no markers", START, f"{END}{START}", f"{START}{START}{END}"])
def test_missing_or_disordered_markers_are_refused_with_what_to_do(text: str) -> None:
    with pytest.raises(ValueError, match="add them and run again with --from-json"):
        replace_section(text, "table")


def test_the_file_is_rewritten_in_place(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(f"a\n{START}\n{END}\nb × c\n", encoding="utf-8")
    update_file(path, "table")
    assert path.read_text(encoding="utf-8") == f"a\n{START}\ntable\n{END}\nb × c\n"


def test_each_section_has_markers_of_its_name() -> None:
    text = f"{START}{END}<!-- work:start -->old<!-- work:end -->"
    assert replace_section(text, "new", "work") == f"{START}{END}<!-- work:start -->\nnew\n<!-- work:end -->"
