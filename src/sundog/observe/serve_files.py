"""Where Serve leaves what others may read without joining its session: two files, and how they are laid out.

::

    <session>/serve/status.json     what runs: applications, deployments, replicas (written by serve/telling.py)
    <session>/serve/board           what waits: queue lengths (written by serve/board.py)

Owns the names, the board's layout and how both are read. Serve itself is not imported: it is large, and the head
process has no other use for it. A broken file reads as one that is not there. Runs in the caller's process.
"""

from __future__ import annotations

import json
import os
from struct import Struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TypedDict

    class ToldReplica(TypedDict, total=False):
        """One replica."""

        id: str
        state: str
        version: str
        since_s: float
        board_row: int
        pid: int | None
        actor_id: str | None
        worker_id: str | None
        log: str | None

    class ToldDeployment(TypedDict, total=False):
        """One deployment, and its replicas."""

        status: str
        trigger: str
        message: str
        wanted: int
        version: str
        previous: str
        rolled_back: str
        canary: float | None
        autoscales: bool
        max_ongoing: int
        queue_row: int
        replicas: list[ToldReplica]

    class ToldRevision(TypedDict, total=False):
        """What was deployed at one time."""

        number: int
        at_s: float
        what: str
        outcome: str
        versions: dict[str, str]

    class ToldApplication(TypedDict, total=False):
        """One application, its deployments by name."""

        status: str
        message: str
        route_prefix: str | None
        ingress: str
        deployed_s: float
        revisions: list[ToldRevision]
        deployments: dict[str, ToldDeployment]

    class Told(TypedDict, total=False):
        """The whole of `status.json`. A file that was cut or changed may lack any of it."""

        at_s: float
        is_over: bool
        host: str | None
        port: int
        applications: dict[str, ToldApplication]


FOLDER = "serve"
STATUS = "status.json"
BOARD = "board"
ROWS = 1024  # of the board: one for a replica, one for the queue of a deployment
COLUMNS = 64  # one for each process that sends requests
CELL_BYTES = 2
BOARD_BYTES = ROWS * COLUMNS * CELL_BYTES
_ROW = Struct(f"={COLUMNS}H")
_STATUS_MAX_BYTES = 8 << 20


def status(session_path: str) -> Told | None:
    """What Serve's controller told last; None if it never ran."""
    try:
        with open(os.path.join(session_path, FOLDER, STATUS), "rb") as file:
            told: Told = json.loads(file.read(_STATUS_MAX_BYTES))
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


def on_board(data: bytes, row: object) -> int | None:
    """How many requests a row of the board has; None if that is not known.

    >>> on_board(bytes([3, 0, 1, 0]) + bytes(124), 0)
    4
    """
    if not isinstance(row, int) or row < 0 or (row + 1) * _ROW.size > len(data):
        return None
    return int(sum(_ROW.unpack_from(data, row * _ROW.size)))
