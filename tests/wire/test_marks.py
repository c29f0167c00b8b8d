"""Markers in output files: written ones are found again, and nothing else is taken for one."""

from __future__ import annotations

from sundog.wire.marks import LITERAL, MARK, find_mark, mark


def test_a_marker_at_the_end_of_a_line_is_found_with_its_key_and_value() -> None:
    line = b"text before it" + mark("name=f:1")
    assert find_mark(line) == (len(b"text before it"), b"name", b"f:1")


def test_a_value_may_hold_an_equals_sign() -> None:
    assert find_mark(mark("part=a=b")) == (0, b"part", b"a=b")


def test_a_line_without_a_separator_has_no_marker() -> None:
    assert find_mark(b"name=f #00000000") is None


def test_a_marker_with_a_wrong_checksum_is_text() -> None:
    written = mark("next=2")
    forged = written[:-1] + (b"0" if written[-1:] != b"0" else b"1")
    assert find_mark(forged) is None


def test_a_marker_in_the_middle_of_a_line_is_text() -> None:
    assert find_mark(mark("name=f") + b" and more") is None


def test_an_unknown_key_is_no_marker() -> None:
    assert find_mark(mark("other=f")) is None


def test_the_sign_for_a_separator_is_no_marker_also_with_text_behind_it() -> None:
    assert LITERAL.startswith(MARK)
    assert find_mark(LITERAL) is None
    assert find_mark(LITERAL + b"name=f #12345678") is None
