"""`sundog dashboard`: which address is printed, and where the head process runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from sundog.cli import dashboard, exits
from sundog.engines import heads
from sundog.engines.sessions import SessionInfo
from sundog.head import program
from sundog.observe.sessions import Opened

Sundog = Callable[..., Result]
INFO = heads.HeadInfo("127.0.0.1", 8265, "t" * 32)


@pytest.fixture
def ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opened:
    tmp_path.chmod(0o700)
    session = Opened("session_1", str(tmp_path))
    monkeypatch.setattr(dashboard, "opened", lambda which: session)
    return session


def test_a_session_with_a_head_has_an_address_already(
    sundog: Sundog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    heads.write_head(str(tmp_path), INFO)
    info = SessionInfo("session_1", str(tmp_path), str(tmp_path), 1)
    monkeypatch.setattr(dashboard, "opened", lambda which: Opened("session_1", str(tmp_path), info))
    assert sundog("dashboard").stdout.endswith(f"  {INFO.page}\n")


def test_an_ended_session_is_served_here_and_its_folder_left_alone(
    sundog: Sundog, ended: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[Any] = []
    monkeypatch.setattr(program, "serve", lambda *args, with_page: served.append(args))
    done = sundog("dashboard", "--port", "0")
    ((session, info, listener, _),) = served
    assert session is ended and info.page in done.stdout and "(ended)" in done.stdout
    assert listener.fileno() == -1 and not list(Path(ended.path).iterdir())


def test_a_missing_package_is_one_sentence(
    sundog: Sundog, ended: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "find_spec", lambda name: None)
    done = sundog("dashboard")
    assert done.exit_code == exits.FAILED and heads.INSTALL in done.stderr and done.stderr.count("\n") == 1
