"""`sundog diff`: its table and its limits, without a session."""

from click.testing import CliRunner

from sundog.advice.comparison import ComparedFunction, FunctionFigures
from sundog.cli import diff


def test_a_row_shows_both_figures_where_they_differ() -> None:
    row = ComparedFunction(
        "f",
        FunctionFigures(3, 0, 0.3, 0.0, 10 << 20, 0, ("x",)),
        FunctionFigures(3, 1, 0.6, 0.0, 10 << 20, 0, ("y",)),
    )
    shown = diff._shown(row)
    assert (shown["count"], shown["failed"], shown["change"], shown["code"]) == (
        "3",
        "0 → 1",
        "+100%",
        "changed",
    )


def test_a_function_that_did_not_run_in_one_session_has_no_time_there() -> None:
    ran = FunctionFigures(2, total_s=0.5)
    gone, new = ComparedFunction("f", ran, FunctionFigures()), ComparedFunction("f", FunctionFigures(), ran)
    assert [diff._shown(gone)[each] for each in ("seconds each", "change")] == ["0.2500 → -", "gone"]
    assert [diff._shown(new)[each] for each in ("seconds each", "change")] == ["- → 0.2500", "new"]
    assert diff._shown(ComparedFunction("new", ran, ran, "old"))["function"] == "old → new"


def test_a_limit_that_is_none_is_a_wrong_command_line() -> None:
    done = CliRunner().invoke(diff.command, ["a", "b", "--fail-if", "quicker=1"])
    assert (done.exit_code, "is not a limit" in done.output) == (2, True)
