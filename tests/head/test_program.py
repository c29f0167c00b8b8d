"""The server's life, in this process."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from sundog.engines import heads
from sundog.engines.sessions import SessionInfo
from sundog.head import app, program
from sundog.observe.sessions import Opened


def test_the_server_of_a_session_whose_node_is_gone_ends_at_once(ended: Opened) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    session = Opened(ended.name, ended.path, SessionInfo(ended.name, ended.path, ended.path, gone.pid))
    info, listener = heads.make_head(None, 0)
    with listener:
        program.serve(session, info, listener)


def test_the_server_ends_when_the_node_does(ended: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    node = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert node.stdin is not None
    session = Opened(ended.name, ended.path, SessionInfo(ended.name, ended.path, ended.path, node.pid))
    info, listener = heads.make_head(None, 0)
    make = app.make_app
    # The node ends once the server begins.
    monkeypatch.setattr(app, "make_app", lambda *args, **how: (node.stdin.close(), make(*args, **how))[1])
    with listener:
        program.serve(session, info, listener)
    assert node.wait() is not None


def test_a_head_of_a_session_that_has_ended_meanwhile_does_nothing(ended: Opened) -> None:
    code = f"from sundog.head.program import main; main({ended.path!r}, 3); print('over')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ))
    assert done.stdout == "over\n", done.stderr


def test_a_port_for_prometheus_that_is_taken_is_told_and_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert program._listen(0) == []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert program._listen(taken.getsockname()[1]) == []
    assert "cannot be used" in capsys.readouterr().out
