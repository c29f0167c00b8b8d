"""Questions to a driver, and its answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from sundog.observe import desks
from sundog.ray_engine.desk import Desk
from tests.integration.strangers import STRANGER, run_as, running_as, shared_folder


def test_a_question_is_answered_with_its_arguments(tmp_path: Path) -> None:
    desk = Desk(str(tmp_path), {"double": lambda x: 2 * x})
    assert desks.ask(str(tmp_path), "double", x=21) == 42
    assert desks.ask(str(tmp_path), "double", x="ab") == "abab"
    desk.close()


def test_a_long_path_is_no_hindrance(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    desk = Desk(str(folder), {"double": lambda x: 2 * x})
    assert desks.ask(str(folder), "double", x=1) == 2
    desk.close()


def test_an_unknown_question_and_an_error_are_told(tmp_path: Path) -> None:
    desk = Desk(str(tmp_path), {"fail": lambda: 1 / 0})
    with pytest.raises(desks.Unanswered, match="does not know this question"):
        desks.ask(str(tmp_path), "weather")
    with pytest.raises(desks.Unanswered, match="ZeroDivisionError"):
        desks.ask(str(tmp_path), "fail")
    desk.close()


def test_another_user_is_neither_answered_nor_believed(leak_check: Path) -> None:
    with shared_folder() as folder:
        session = folder / "session"
        session.mkdir(mode=0o755)
        asked: list[str] = []
        desk = Desk(str(session), {"tasks": lambda: asked.append("tasks")})
        (session / desks.SOCKET).chmod(0o777)
        program = """
            import socket, sys
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(sys.argv[1])
                try:
                    sock.sendall(b'{"ask": "tasks"}\\n')
                    print(sock.recv(100))
                except (BrokenPipeError, ConnectionResetError):
                    print(b"")
            """
        assert run_as(STRANGER, program, str(session / desks.SOCKET)).stdout == "b''\n"
        assert desks.ask(str(session), "tasks") is None and asked == ["tasks"]
        desk.close()
        session.chmod(0o777)
        liar = """
            import socket, sys
            sock = socket.socket(socket.AF_UNIX)
            sock.bind(sys.argv[1])
            sock.listen()
            print("listens", flush=True)
            while True:
                caller, _ = sock.accept()
                caller.sendall(b'{"answer": "forged"}')
                caller.close()
            """
        with running_as(STRANGER, liar, str(session / desks.SOCKET)):
            with pytest.raises(desks.Unanswered, match="other users can write"):
                desks.ask(str(session), "tasks")
            session.chmod(0o755)
            (session / desks.SOCKET).chmod(0o777)
            with pytest.raises(desks.Unanswered, match="runs as another user"):
                desks.ask(str(session), "tasks")
