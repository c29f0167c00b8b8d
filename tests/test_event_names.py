"""The file beside a ring: names, functions' own names and notes, also while it is being written."""

from __future__ import annotations

from pathlib import Path

import pytest

from sundog import event_names

LINES = b"1\t'work'\tabc\n2\t'named'\tdef\t'function'\nsite\t{\"task\": \"t1\"}\n"


@pytest.fixture
def ring(tmp_path: Path) -> str:
    (tmp_path / "ring.names").write_bytes(LINES + b"3\t'half")
    return str(tmp_path / "ring")


def test_names_and_functions_are_read_and_a_line_that_is_being_written_is_not(ring: str) -> None:
    assert event_names.read_names(ring) == {1: ("work", "abc"), 2: ("named", "def")}
    assert event_names.read_functions(ring) == {2: "function"}
    assert list(event_names.read_notes(ring)) == [("site", {"task": "t1"})]


def test_reading_goes_on_where_it_stopped(ring: str) -> None:
    _, position = event_names.read_more_names(ring, 0)
    with open(ring + ".names", "ab") as file:
        file.write(b"'\tghi\n")

    assert event_names.read_more_names(ring, position)[0] == {3: ("half", "ghi")}


def test_parts_of_a_file_are_parsed_up_to_the_last_whole_line() -> None:
    names, notes, whole = event_names.parse(LINES + b"3\t'half")

    assert names == [(1, "work", "abc", ""), (2, "named", "def", "function")]
    assert notes == [("site", {"task": "t1"})]
    assert whole == len(LINES)


def test_a_broken_line_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "ring.names").write_bytes(b"x y z\n1\tnot python\n" + LINES)

    assert set(event_names.read_names(str(tmp_path / "ring"))) == {1, 2}


def test_a_ring_without_a_file_has_no_names(tmp_path: Path) -> None:
    assert event_names.read_names(str(tmp_path / "none")) == {}


def test_a_long_text_in_a_note_is_cut_and_what_is_no_json_is_shown() -> None:
    line = event_names.note_line("why", {"text": "x" * 100_000, "odd": object})

    assert len(line) < 20_000
    [(kind, facts)] = event_names.parse(line)[1]
    assert kind == "why" and "object" in facts["odd"]
