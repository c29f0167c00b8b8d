"""Where Serve leaves what others may read without joining its session: two files, and how they are laid out.

::

    <session>/serve/status.json     who is there: applications, deployments, replicas (written by serve/telling.py)
    <session>/serve/board           who waits: queue lengths (written by serve/board.py)

Owns the names, the board's layout and how both are read. Serve itself is not imported: it is large, and the head
process has no other use for it. A broken file reads as one that is not there. Runs in the process of whoever looks.
"""

from __future__ import annotations

import json
import os
from struct import Struct
from typing import Any

FOLDER = "serve"
STATUS = "status.json"
BOARD = "board"
ROWS = 1024  # of the board: one for a replica, one for the queue of a deployment
COLUMNS = 64  # one for each process that sends requests
CELL_BYTES = 2
BOARD_BYTES = ROWS * COLUMNS * CELL_BYTES
_ROW = Struct(f"={COLUMNS}H")
_STATUS_MAX_BYTES = 8 << 20


def status(session_path: str) -> dict[str, Any] | None:
    """What Serve's controller told last; None if it never ran."""
    try:
        with open(os.path.join(session_path, FOLDER, STATUS), "rb") as file:
            told = json.loads(file.read(_STATUS_MAX_BYTES))
    except (OSError, ValueError):
        return None
    return told if isinstance(told, dict) else None


def board(session_path: str) -> bytes:
    """The board as it is now; empty if there is none."""
    try:
        with open(os.path.join(session_path, FOLDER, BOARD), "rb") as file:
            return file.read(BOARD_BYTES)
    except OSError:
        return b""


def on_board(data: bytes, row: Any) -> int | None:
    """How many requests a row of the board has; None if that is not known.

    >>> on_board(bytes([3, 0, 1, 0]) + bytes(124), 0)
    4
    """
    if not isinstance(row, int) or row < 0 or (row + 1) * _ROW.size > len(data):
        return None
    return int(sum(_ROW.unpack_from(data, row * _ROW.size)))
