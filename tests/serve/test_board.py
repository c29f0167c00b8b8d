"""Queue lengths in a file that several processes map."""

from __future__ import annotations

from pathlib import Path

from sundog.serve.board import QueueBoard, create


def test_each_router_writes_its_own_column_and_all_read_the_sum(tmp_path: Path) -> None:
    path = str(tmp_path / "board")
    create(path)
    one, two = QueueBoard(path, 1), QueueBoard(path, 2)
    one.add(5, 3)
    two.add(5, 2)
    one.add(5, -1)

    assert one.total(5) == two.total(5) == 4
    assert one.total(4) == 0
    two.clear_column(1)
    assert one.total(5) == 2
    one.add(5, -10)
    assert one.total(5) == 2  # a cell never goes below zero
    two.clear_row(5)
    assert one.total(5) == 0
    one.close()
    two.close()
