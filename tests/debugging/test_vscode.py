"""What an editor is told, and who may be one."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sundog import trust
from sundog.debugging import vscode


def test_the_launch_configuration_is_what_vs_code_reads() -> None:
    entry = json.loads(vscode.launch_configuration(4711, "f"))
    assert entry["request"] == "attach" and entry["connect"] == {"host": "127.0.0.1", "port": 4711}
    assert not vscode.is_attached()


def test_a_connection_of_another_user_is_closed_and_the_next_one_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    users = [os.geteuid() + 1, None, os.geteuid()]
    monkeypatch.setattr(trust, "connected_user", lambda _: users.pop(0))
    with vscode.DebugGate(socket.AF_INET, socket.SOCK_STREAM) as gate:
        gate.bind(("127.0.0.1", 0))
        gate.listen()
        clients = [socket.create_connection(gate.getsockname(), timeout=120) for _ in range(3)]
        with gate.accept()[0] as taken:
            assert taken.getpeername() == clients[2].getsockname()
            assert [each.recv(1) for each in clients[:2]] == [b"", b""]
        for each in clients:
            each.close()


def test_a_breakpoint_stays_ours_when_debugpy_listens() -> None:
    program = (
        "import sys\nfrom sundog.debugging import vscode\n"
        "hook = sys.breakpointhook = lambda *_: None\nvscode.listen()\nassert sys.breakpointhook is hook\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120, capture_output=True)


def test_threads_of_sundog_are_no_business_of_the_editor() -> None:
    end = threading.Event()
    threads = [
        threading.Thread(target=end.wait, name=name)
        for name in ("sundog-reader", "sundog-default_0", "sundog-default-loop")
    ]
    for each in threads:
        each.start()
    try:
        vscode.spare_own_threads()
        assert [getattr(each, "pydev_do_not_trace", False) for each in threads] == [True, False, False]
    finally:
        end.set()
        for each in threads:
            each.join()


def test_every_thread_that_sundog_starts_in_a_worker_under_a_fixed_name_is_listed() -> None:
    package = Path(vscode.__file__).parents[1]
    named = {
        name
        for folder in ("worker", "owner", "debugging", "profiling")
        for path in (package / folder).glob("*.py")
        for name in re.findall(r'name="(sundog-[^"{]+)"', path.read_text())
    }
    assert "sundog-reader" in named and named == vscode.OWN_THREADS


def test_another_tracer_is_left_alone_when_no_editor_is_attached() -> None:
    before = sys.gettrace()

    def tracer(*_: object) -> None:
        return None

    sys.settrace(tracer)
    try:
        vscode.release_thread()
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)
