"""The doctor's table: what it says when a program cannot be examined."""

from pathlib import Path

import pytest

from tests.advice import table


def test_a_program_that_fails_does_not_lose_the_table(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def judged(name: str) -> table.Row:
        if name == "clean_life":
            raise KeyError("findings")
        return table.Row(name, "", [], "", 0, 0.5, 0.0, 0.0, [], [])

    page = tmp_path / "page.md"
    page.write_text("before <!-- table:start --><!-- table:end --> after")
    monkeypatch.setattr(table, "judge", judged)
    monkeypatch.setattr("sys.argv", ["table", "clean_life", "clean_wait", "--write", str(page)])
    assert table.main() == 1
    written = page.read_text()
    assert "| clean_wait | none | nothing |" in written
    assert "Not examined, because they failed: clean_life." in written
    assert "findings" in capsys.readouterr().out
