"""Logs and stacks as the page shows them."""

from __future__ import annotations

from pathlib import Path

from sundog.dashboard.page.reading import LINES_MAX, log_names, log_of, matching, profiles_html, stacks_html
from sundog.observe.stacks import StackGroup


def test_the_last_lines_that_match_are_shown_and_all_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "worker.out"
    path.write_text("".join(f"line {number}\n" for number in range(5 * LINES_MAX)))
    lines, total = matching(str(path), "")
    assert total == 5 * LINES_MAX and len(lines) == LINES_MAX and lines[-1] == f"line {5 * LINES_MAX - 1}"
    assert matching(str(path), "LINE 77")[0][:2] == ["line 77", "line 770"]


def test_logs_of_a_session_are_found_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    for name in ("node.log", "worker-ab.out", "worker-ab.err"):
        (tmp_path / "logs" / name).write_text("x\n")
    assert log_names(str(tmp_path)) == ["worker-ab.out", "worker-ab.err", "node.log"]
    assert log_of(str(tmp_path), "../../etc/passwd") == ""


def test_stacks_are_filtered_by_every_word() -> None:
    groups = [
        ("worker running f (pid 1)", StackGroup("t", ["<x> a.py:1"])),
        ("driver (pid 2)", StackGroup("t", [])),
    ]
    text = stacks_html(groups, "running a.py", True)
    assert "&lt;x&gt;" in text and "driver" not in text
    assert "No process" in stacks_html(groups, "nothing", True)
    assert "ended" in stacks_html([], "", False)


def test_profiles_are_lines_that_lead_to_their_pictures() -> None:
    assert "/profiles?id=a" in profiles_html([("a", "cpu", "pid 1")], "a")
    assert "sundog profile run" in profiles_html([], "")
