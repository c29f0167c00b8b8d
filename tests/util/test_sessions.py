"""Sessions as text and as HTML."""

from __future__ import annotations

import os
from pathlib import Path

from sundog.observe.sessions import Opened
from sundog.util.sessions import Session, SessionList


def make(tmp_path: Path, name: str) -> Session:
    folder = tmp_path / name
    for each in ("records", "rings"):
        (folder / each).mkdir(parents=True)
    return Session(Opened(name, str(folder)))


def test_an_ended_session_is_a_card_and_a_line(tmp_path: Path) -> None:
    found = make(tmp_path, "session_<1>")
    assert repr(found).startswith("session_<1>: ended, 0 tasks finished")
    text = found._repr_html_()
    assert "session_&lt;1&gt;" in text and "<1>" not in text and "0 finished" in text


def test_sessions_are_a_table_and_behave_as_a_tuple(tmp_path: Path) -> None:
    found = SessionList(tuple(make(tmp_path, f"session_{number}") for number in range(25)))
    assert len(found) == 25 and found[0].name == "session_0" and len(found[1:3]) == 2
    assert "and 5 more" in repr(found) and "and 5 more" in found._repr_html_()
    assert found._repr_html_().count("<tr>") == 21
    assert repr(SessionList(())) == SessionList(())._repr_html_() == "No session."
    os.rename(tmp_path / "session_0", tmp_path / "gone")  # removed meanwhile
    assert "session_0 " not in repr(found)
