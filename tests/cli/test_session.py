"""`sundog session`: lists, shows and packs sessions that have ended; bad input."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Sundog = Callable[..., Result]


@pytest.fixture
def ended(leak_check: Path) -> Path:
    folder = leak_check / "session_2026-01-02_03-04-05_1_aaaa"
    (folder / "logs").mkdir(parents=True)
    folder.chmod(0o700)
    (folder / "logs" / "node.log").write_text("a line\n")
    (folder / ".sundog").symlink_to(folder.name)
    return folder


def test_ended_sessions_are_listed_and_one_is_shown(sundog: Sundog, ended: Path) -> None:
    [row] = json.loads(sundog("session", "list", "--json").output)
    assert (row["name"], row["state"], row["began"]) == (ended.name, "ENDED", "2026-01-02 03:04:05")
    assert json.loads(sundog("session", "show", "--session", "aaaa", "--format", "json").output) == [row]


def test_a_session_is_exported_and_the_file_is_opened(
    sundog: Sundog, ended: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    file = tmp_path / "run.sundog"
    told = sundog("session", "export", str(file)).output
    assert f": {file.stat().st_size} B. Look at it with" in told, "in the unit that suits it"
    [row] = json.loads(sundog("session", "show", "--session", str(file), "--json").output)
    assert row["name"] == ended.name and row["path"] != str(ended)
    result = sundog("session", "export", str(tmp_path / "no" / "such" / "folder"))
    assert (result.exit_code, len(result.output.splitlines())) == (1, 1)


def test_without_a_session_there_is_one_sentence_and_exit_code_3(sundog: Sundog) -> None:
    assert sundog("session", "list").output == "There are no sessions.\n"
    for arguments in (["show"], ["export", "x"], ["show", "--session", "nonsense"]):
        result = sundog("session", *arguments)
        assert (result.exit_code, len(result.output.splitlines())) == (3, 1)
