"""Programs beside the node."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from sundog import isolation
from sundog.node import beside
from tests.node.fakes import FakeNode

_PROGRAM = """
import os, socket
with socket.socket(fileno=3) as listener:
    print(listener.getsockname()[1], os.getpid() == os.getsid(0))
"""


def test_a_program_has_its_socket_a_log_and_a_session_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "logs").mkdir()
    monkeypatch.setattr(isolation, "command", lambda call: [sys.executable, "-c", call])
    node: Any = FakeNode()
    node.session["path"], node.params["environ"] = str(tmp_path), dict(os.environ)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        pid = beside.spawn(node, _PROGRAM, listener.fileno(), "it.log")
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        port = listener.getsockname()[1]
    assert (tmp_path / "logs" / "it.log").read_text() == f"{port} True\n"
