"""Bars as lines, as HTML and on a terminal, without a session."""

import io
import sys
from types import ModuleType
from typing import Any

import pytest

from sundog.observe.activity import Function
from sundog.util import progress
from sundog.util.progress_bars import (
    LineBars,
    NotebookBars,
    Screen,
    as_html,
    choose_view,
    in_one_line,
    ordered,
)


def half() -> Function:
    return Function("f", done=3, failed=2, running=1, waiting=4, rate=2.0, left_s=2.5)


def test_a_line_says_how_far_a_function_is() -> None:
    assert in_one_line(half()) == "f: 3 of 10 done, 1 running, 4 waiting, 2 failed; 2.0/s, 2.5 s left"
    assert in_one_line(Function("f", done=4)) == "f: 4 of 4 done"


def test_piped_lines_come_at_the_end_and_only_when_something_changed() -> None:
    out = io.StringIO()
    lines = LineBars(out)
    lines.show([half()], last=False)  # too early
    assert out.getvalue() == ""
    lines.show([half()], last=True)
    lines.show([half()], last=True)
    assert out.getvalue().count("\n") == 1


def test_html_has_no_markup_of_the_users() -> None:
    page = as_html([Function("<script>", done=1, running=1)])
    assert "<script>" not in page and "&lt;script&gt;" in page and "width:50.00%" in page


def test_functions_that_are_not_done_come_first() -> None:
    functions = [Function("big", done=9), Function("small", running=1), Function("wide", waiting=5)]
    assert [each.name for each in ordered(functions)] == ["wide", "small", "big"]


def test_a_terminal_gets_bars_and_a_pipe_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    assert isinstance(choose_view(out), LineBars)
    monkeypatch.setattr(out, "isatty", lambda: True)
    screen = choose_view(out)
    assert isinstance(screen, Screen)
    screen.show([half()], last=False)
    screen.show([half()], last=True)
    assert "3/10" in out.getvalue()


def test_a_notebook_gets_html_that_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []

    class ZMQInteractiveShell:
        pass

    class Handle:
        def update(self, page: str) -> None:
            shown.append(("again", page))

    def display(page: str, display_id: bool) -> Handle:
        shown.append(("first", page))
        return Handle()

    notebook: Any = ModuleType("IPython")
    notebook.get_ipython = ZMQInteractiveShell
    notebook.display = ModuleType("IPython.display")
    notebook.display.HTML, notebook.display.display = str, display
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", notebook.display)
    page = choose_view(io.StringIO())
    assert isinstance(page, NotebookBars)
    page.show([half()], last=False)
    page.show([half()], last=True)
    assert [kind for kind, _ in shown] == ["first", "again"] and "<table>" in shown[0][1]


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"interval_s must be .* above zero, not 0"):
        progress(interval_s=0)
