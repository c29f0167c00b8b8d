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


def row(predicted_s: float, twin_s: float, least_s: float = -1.0) -> table.Row:
    return table.Row("p", "spilling", [3], "spilling", 3, 9.0, predicted_s, twin_s, ["spilling"], [], least_s)


def test_a_prediction_is_good_within_15_percent_or_the_noise_or_as_a_range_that_holds_the_time() -> None:
    assert row(1.1, 1.0).is_good
    assert not row(1.2, 1.0).is_good
    assert row(0.1, 0.06).is_good  # 40 ms: two runs of one program differ by more
    assert row(2.0, 0.5, 0.3).is_good
    assert not row(2.0, 0.2, 0.3).is_good
    assert row(2.0, 0.5, 0.3).cells()[4:] == ["0.30–2.00", "0.50", "+0%"]
    said = table.page([row(1.1, 1.0), row(0.1, 0.06), row(2.0, 0.5, 0.3), row(9.0, 1.0)]).splitlines()[0]
    assert "3 of 4 predictions are good: 1 within 15 %" in said
    assert "1 more within 0.05 s, 1 as a range" in said
