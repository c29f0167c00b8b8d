"""How the driver shows what workers print."""

from __future__ import annotations

import doctest
import io
import sys
from typing import Any, TextIO

import pytest

from sundog.owner import logs
from sundog.owner.logs import FOLD_MAX_LINES, FOLD_WINDOW_S, BatchTuple, DriverLogs, print_batch, wants_color


def batch(
    *lines: str, worker: int = 1, name: str = "f", is_err: bool = False, job: bytes = b"job1"
) -> BatchTuple:
    return (bytes([worker]), 100 + worker, job, name, is_err, list(lines))


class Screen:
    def __init__(self, *, color: bool = False, **settings: Any) -> None:
        self.out = io.StringIO()
        self.err = io.StringIO()
        self.logs = DriverLogs(stream_out=self.out, stream_err=self.err, color=color, **settings)

    def text(self) -> list[str]:
        return self.out.getvalue().splitlines()


def test_the_examples_in_the_docstrings_run() -> None:
    assert doctest.testmod(logs).failed == 0


def test_each_line_carries_name_and_pid_on_the_stream_it_was_printed_to() -> None:
    out, err = io.StringIO(), io.StringIO()
    print_batch(batch("a", "", "b"), stream_out=out, stream_err=err, color=False)
    print_batch(batch("bad", is_err=True, name=""), stream_out=out, stream_err=err, color=False)
    assert out.getvalue() == "(f pid=101) a\n(f pid=101) \n(f pid=101) b\n"
    assert err.getvalue() == "(pid=101) bad\n"


def test_a_colour_belongs_to_a_pid_and_ends_before_the_line() -> None:
    out = io.StringIO()
    for worker in (1, 2, 1):
        print_batch(batch("x", worker=worker), stream_out=out, stream_err=out, color=True)
    first, second, third = out.getvalue().splitlines()
    assert first == third and first.split("(")[0] != second.split("(")[0]
    assert first.endswith("(f pid=101)\x1b[0m x")


def test_lines_from_another_node_carry_its_address() -> None:
    screen = Screen()
    screen.logs.feed(batch("x"), 0.0, ip="10.0.0.2")
    assert screen.text() == ["(f pid=101, ip=10.0.0.2) x"]


def test_identical_lines_of_other_workers_are_counted_and_shown_once_more() -> None:
    screen = Screen()
    for worker in range(6):
        screen.logs.feed(batch("loading", worker=worker), 1.0)
    assert screen.text() == ["(f pid=100) loading"]
    screen.logs.flush(1.0 + FOLD_WINDOW_S)
    assert len(screen.text()) == 2
    assert screen.text()[1].startswith("(f pid=105) loading [repeated 5x across cluster]")
    assert "are folded" in screen.text()[1]


def test_the_hint_about_folding_is_given_once() -> None:
    screen = Screen()
    for text in ("a", "b"):
        for worker in range(3):
            screen.logs.feed(batch(text, worker=worker), 1.0)
    screen.logs.flush()
    assert screen.out.getvalue().count("are folded") == 1
    assert screen.out.getvalue().count("[repeated 2x across cluster]") == 2


def test_a_line_said_by_just_one_other_worker_is_shown_plainly() -> None:
    screen = Screen()
    screen.logs.feed(batch("x", worker=1), 1.0)
    screen.logs.feed(batch("x", worker=2), 1.0)
    screen.logs.flush()
    assert screen.text() == ["(f pid=101) x", "(f pid=102) x"]


def test_a_worker_that_repeats_itself_is_not_folded() -> None:
    screen = Screen()
    screen.logs.feed(batch("tick", "tick"), 1.0)
    screen.logs.feed(batch("tick"), 2.0)
    screen.logs.flush()
    assert screen.text() == ["(f pid=101) tick"] * 3


def test_lines_of_several_workers_that_differ_only_in_numbers_are_folded() -> None:
    screen = Screen()
    for worker in range(5):
        screen.logs.feed(batch(f"step {worker} at 0x7f{worker}a", worker=worker), 1.0)
    assert screen.text() == ["(f pid=100) step 0 at 0x7f0a"]
    screen.logs.flush()
    assert screen.text()[1].startswith("(f pid=104) step 4 at 0x7f4a [repeated 4x across cluster]")


def test_lines_that_are_nothing_but_numbers_are_all_shown() -> None:
    screen = Screen()
    for worker in range(5):
        screen.logs.feed(batch(str(worker), worker=worker), 1.0)
    assert len(screen.text()) == 5


def test_lines_that_the_allow_pattern_finds_are_all_shown() -> None:
    screen = Screen(allow="ABC")
    for worker in range(5):
        screen.logs.feed(batch("hello ABC", "hello", worker=worker), 1.0)
    assert len([line for line in screen.text() if line.endswith("ABC")]) == 5
    assert len(screen.text()) == 6


def test_lines_that_the_skip_pattern_finds_are_not_shown_unless_allowed() -> None:
    screen = Screen(skip="secret", allow="loud")
    screen.logs.feed(batch("secret", "loud secret", "other"), 1.0)
    assert screen.text() == ["(f pid=101) loud secret", "(f pid=101) other"]


def test_the_window_is_a_setting() -> None:
    screen = Screen(window_s=1.0)
    for worker in range(3):
        screen.logs.feed(batch("same", worker=worker), 1.0)
    screen.logs.flush(2.0)
    assert "[repeated 2x across cluster]" in screen.text()[1]


def test_a_pattern_that_is_none_is_refused_with_its_setting() -> None:
    with pytest.raises(ValueError, match="dedup_logs_skip_regex"):
        DriverLogs(skip="(")


def test_folding_can_be_switched_off() -> None:
    screen = Screen(dedup=False)
    for worker in range(5):
        screen.logs.feed(batch("same", worker=worker), 1.0)
    assert len(screen.text()) == 5


def test_no_line_is_lost_by_folding_whatever_the_windows() -> None:
    screen = Screen()
    for i in range(200):
        screen.logs.feed(batch("same", worker=i % 7), i * 0.3)
    screen.logs.flush()
    shown = 0
    for line in screen.text():
        shown += int(line.split("[repeated ")[1].split("x")[0]) if "[repeated" in line else 1
    assert shown == 200


def test_memory_for_folding_is_bounded() -> None:
    screen = Screen()
    letters = str.maketrans("0123456789", "abcdefghij")
    lines = [f"line {i}".translate(letters) for i in range(FOLD_MAX_LINES * 2)]
    screen.logs.feed(batch(*lines), 1.0)
    assert len(screen.logs._seen) <= FOLD_MAX_LINES


def test_only_the_own_job_is_shown() -> None:
    screen = Screen(job_id=b"job1")
    screen.logs.feed(batch("mine"))
    screen.logs.feed(batch("other", job=b"job2"))
    assert screen.text() == ["(f pid=101) mine"]


def test_a_progress_bar_overwrites_itself_on_a_terminal() -> None:
    screen = Screen(color=True)
    screen.logs.feed(batch("10%\r", "20%\r"))
    screen.logs.feed(batch("30%\r"))
    screen.logs.feed(batch("done"))
    text = screen.out.getvalue()
    assert "10%" not in text and text.count("\n") == 1
    assert "20%" in text and "30%" in text
    assert text.endswith("(f pid=101)\x1b[0m done\n")
    before_done = text[: text.index("done")]
    assert "\r\x1b[K" in before_done[before_done.index("30%") :]


def test_a_progress_bar_in_a_plain_file_shows_its_last_state_only() -> None:
    screen = Screen(color=False)
    screen.logs.feed(batch("10%\r", "20%\r"))
    screen.logs.feed(batch("100%"))
    assert screen.out.getvalue() == "(f pid=101) 100%\n"


def test_an_unfinished_bar_is_ended_at_shutdown() -> None:
    screen = Screen(color=True)
    screen.logs.feed(batch("10%\r"))
    screen.logs.flush()
    assert screen.out.getvalue().endswith("10%\n")


def test_a_closed_or_missing_stdout_does_not_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    screen.out.close()
    screen.logs.feed(batch("x"))
    shown = DriverLogs()
    monkeypatch.setattr(sys, "stdout", None)
    shown.feed(batch("y"))


def test_a_stdout_without_utf8_shows_escapes() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    print_batch(batch("é"), stream_out=stream, stream_err=stream, color=False)
    assert raw.getvalue() == b"(f pid=101) \\xe9\n"


def test_the_stream_is_the_one_of_the_moment(capsys: pytest.CaptureFixture[str]) -> None:
    DriverLogs(color=False).feed(batch("hello", is_err=True))
    assert capsys.readouterr().err == "(f pid=101) hello\n"


def test_colour_is_for_terminals_and_notebooks() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    cell: TextIO = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    closed = io.StringIO()
    closed.close()
    assert wants_color(Terminal()) and wants_color(cell)
    assert not wants_color(io.StringIO()) and not wants_color(closed)
