"""Two sessions compared, by figures that are written down."""

import json

import pytest

from sundog.advice.comparison import FunctionFigures, SessionFigures, breaches, compare, parse_limit, together

MIB = 1 << 20


def session(length_s: float = 1.0, **functions: FunctionFigures) -> SessionFigures:
    return SessionFigures("s", length_s, functions)


def test_functions_of_either_session_are_compared_the_largest_difference_first() -> None:
    before = session(a=FunctionFigures(10, total_s=1.0), gone=FunctionFigures(1, total_s=0.1))
    after = session(a=FunctionFigures(10, total_s=2.0), new=FunctionFigures(1, total_s=0.2))
    assert [row.name for row in compare(before, after)] == ["a", "new", "gone"]
    assert compare(before, after)[0].slower == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("limit", "after", "expected"),
    [
        ("slower=20%", FunctionFigures(10, total_s=1.5), "a is 50% slower"),
        ("larger=10%", FunctionFigures(10, total_s=1.0, peak_bytes=200 * MIB), "a is 100% larger"),
        ("failed", FunctionFigures(10, 3, total_s=1.0), "a failed 3 times, 0 before"),
        ("spilled", FunctionFigures(10, total_s=1.0, spilled_bytes=5), "a had 5 bytes spilled, 0 before"),
        ("changed", FunctionFigures(10, total_s=1.0, codes=("y",)), "the code of a is another"),
    ],
)
def test_what_is_worse_than_its_limit_is_said(limit: str, after: FunctionFigures, expected: str) -> None:
    before = session(a=FunctionFigures(10, 0, 1.0, 0.0, 100 * MIB, 0, ("x",)))
    [text] = breaches(before, session(a=after), [parse_limit(limit)])
    assert text.startswith(expected)
    assert not breaches(before, before, [parse_limit(limit)])


def test_a_difference_that_is_noise_is_none() -> None:
    before = session(a=FunctionFigures(10, total_s=0.01, peak_bytes=10 * MIB))
    after = session(a=FunctionFigures(10, total_s=0.02, peak_bytes=12 * MIB))
    assert not breaches(before, after, [("slower", 0.1), ("larger", 0.1)])


def test_a_small_difference_of_many_calls_is_none_of_noise() -> None:
    before = session(a=FunctionFigures(3000, total_s=3.0), b=FunctionFigures(3000, total_s=0.03))
    after = session(a=FunctionFigures(3000, total_s=12.0), b=FunctionFigures(3000, total_s=0.3))
    [text] = breaches(before, after, [("slower", 0.5)])
    assert text == "a is 300% slower: 0.001 s each, now 0.004 s"


def test_a_function_that_got_another_name_is_known_by_its_code() -> None:
    def ran(total_s: float, *codes: str) -> FunctionFigures:
        return FunctionFigures(10, total_s=total_s, codes=codes)

    before = session(old=ran(1.0, "x"), one=ran(1.0, "y"), two=ran(1.0, "y"), kept=ran(1.0, "z"))
    after = session(new=ran(3.0, "x"), three=ran(1.0, "y"), kept=ran(1.0, "z"), copy=ran(1.0, "z"))
    rows = {row.name: (row.before_name, row.before.count, row.after.count) for row in compare(before, after)}
    assert rows["new"] == ("old", 10, 10) and "old" not in rows
    # The same code under several names may be a wrapper of different functions.
    assert rows["three"][1:] == (0, 10) and rows["one"][1:] == (10, 0) and rows["copy"][1:] == (0, 10)
    assert breaches(before, after, [("slower", 0.2)]) == ["new is 200% slower: 0.100 s each, now 0.300 s"]


def test_the_whole_run_is_compared_too() -> None:
    assert breaches(session(1.0), session(2.0), [("slower", 0.2)]) == [
        "the run is 100% slower: 1.00 s, now 2.00 s"
    ]


@pytest.mark.parametrize("text", ["quicker=3", "slower=lots", "slower=-1", "slower=nan", "slower=inf", ""])
def test_a_limit_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a limit|is not a share"):
        parse_limit(text)


def test_figures_can_be_stored_and_read_again() -> None:
    made = session(2.5, a=FunctionFigures(3, 1, 0.5, 0.25, 7, 0, ("x",)))
    again = SessionFigures.of_dict("s", json.loads(json.dumps(made.as_dict())))
    assert (again.length_s, again.functions) == (2.5, made.functions)
    with pytest.raises(ValueError, match="cannot be read"):
        SessionFigures.of_dict("s", {"functions": 3})


def test_sessions_of_one_program_are_counted_together() -> None:
    first = session(2.0, a=FunctionFigures(3, 1, 0.5, 0.25, 7, 1, ("x",)), b=FunctionFigures(1, 0, 0.1))
    second = session(1.0, a=FunctionFigures(2, 0, 0.5, 0.25, 9, 0, ("y",)))
    found = together([first, second])
    assert found.length_s == 3.0 and found.functions["b"] == first.functions["b"]
    assert found.functions["a"] == FunctionFigures(5, 1, 1.0, 0.5, 9, 1, ("x", "y"))
