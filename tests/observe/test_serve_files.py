"""Serve's files, read without Serve."""

from __future__ import annotations

from pathlib import Path

from sundog.observe import serve_files
from sundog.serve.board import QueueBoard, create


def test_what_routers_write_on_the_board_is_read_without_them(tmp_path: Path) -> None:
    (tmp_path / "serve").mkdir()
    path = str(tmp_path / "serve" / "board")
    create(path)
    for column, count in ((1, 3), (5, 2)):
        board = QueueBoard(path, column)
        board.add(7, count)
        board.close()
    data = serve_files.board(str(tmp_path))
    assert serve_files.on_board(data, 7) == 5 and serve_files.on_board(data, 8) == 0
    assert serve_files.on_board(data, -1) is None and serve_files.on_board(data, 5000) is None


def test_a_session_without_serve_and_one_with_a_broken_file_say_nothing(tmp_path: Path) -> None:
    assert serve_files.status(str(tmp_path)) is None and serve_files.board(str(tmp_path)) == b""
    (tmp_path / "serve").mkdir()
    for text in ("", "{", "[1]", "\xff"):
        (tmp_path / "serve" / "status.json").write_text(text)
        assert serve_files.status(str(tmp_path)) is None
