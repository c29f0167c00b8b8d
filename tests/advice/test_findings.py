"""Which findings are said, and in which order."""

from sundog.advice.findings import Draft, weigh
from sundog.advice.run import Run
from sundog.advice.simulator import play
from tests.advice.runs import Script, serial_gets


def draft(kind: str, seconds: float, site: str = "/x.py:3 in f") -> Draft:
    script = Script()
    script.compute(seconds)
    return Draft(kind, kind, site, 1, 0.0, "", "", script.run())


def weighed(run: Run, *drafts: Draft) -> list[str]:
    return [each.kind for each in weigh(run, list(drafts), play(run).length_s)]


def test_the_finding_that_gains_most_comes_first() -> None:
    run = serial_gets(10, 1.0, "").run()
    assert weighed(run, draft("a", 8.0), draft("b", 3.0), draft("c", 5.0)) == ["b", "c", "a"]


def test_what_gains_next_to_nothing_is_not_said() -> None:
    run = serial_gets(10, 1.0, "").run()
    assert weighed(run, draft("a", 9.9)) == []
    short = serial_gets(1, 0.06, "").run()
    assert weighed(short, draft("a", 0.03)) == []


def test_the_echo_of_a_fault_is_not_said() -> None:
    run = serial_gets(10, 1.0, "").run()
    assert weighed(run, draft("get-in-loop", 2.0), draft("serial-part", 3.0)) == ["get-in-loop"]
    assert weighed(run, draft("get-in-loop", 2.0), draft("stragglers", 3.0)) == ["get-in-loop"]


def test_results_taken_in_order_explain_that_the_program_works_on_them_alone() -> None:
    run = serial_gets(10, 1.0, "").run()
    assert weighed(run, draft("get-in-order", 6.0), draft("serial-part", 5.0)) == ["get-in-order"]


def test_predictions_are_corrected_by_the_error_of_the_simulator() -> None:
    run = serial_gets(10, 1.0, "").run()
    run.length_s = 20.0  # measured: twice what the simulator says
    [finding] = weigh(run, [draft("a", 5.0)], 10.0)
    assert finding.predicted_s == 10.0
    assert (finding.file, finding.line) == ("/x.py", 3)


def test_what_gains_less_than_the_simulator_is_off_is_not_said() -> None:
    run = serial_gets(10, 1.0, "").run()
    assert [each.kind for each in weigh(run, [draft("a", 9.0), draft("b", 3.0)], 15.0)] == ["b"]


def test_a_range_is_predicted_where_the_records_leave_open_how_much_is_gained() -> None:
    run = serial_gets(10, 1.0, "").run()
    open_ = draft("a", 8.0)
    open_.best = draft("", 2.0).run
    [range_] = weigh(run, [open_], 10.0)
    assert (range_.predicted_least_s, range_.predicted_s, range_.gain_s) == (2.0, 8.0, 5.0)
    assert range_.is_range
    [single] = weigh(run, [draft("a", 8.0)], 10.0)
    assert single.predicted_least_s == single.predicted_s
    assert not single.is_range


def test_a_recursion_of_small_tasks_explains_that_they_wait_for_each_other() -> None:
    run = serial_gets(10, 1.0, "").run()
    assert weighed(run, draft("nested-get", 3.0), draft("tasks-too-small", 4.0)) == ["tasks-too-small"]
