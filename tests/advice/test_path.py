"""The critical path, parallelism and idle time of runs made by hand."""

import pytest

from sundog.advice.path import PROGRAM, by_function, critical_path, idle_share, parallelism
from sundog.advice.run import SUBMIT, WAIT, Op
from tests.advice.runs import Script, serial_gets


def test_the_path_of_serial_gets_is_all_of_them() -> None:
    path = by_function(critical_path(serial_gets(4, 0.5, "", gap_s=0.1).run()))
    assert dict(path) == {"work": pytest.approx(2.0), PROGRAM: pytest.approx(0.4)}


def test_the_path_goes_through_what_was_waited_for_last() -> None:
    script = Script()
    first = script.submit("first", 1.0)
    second = script.submit("second", 0.5, start_s=1.0, deps=(first.key,), process=9)
    script.submit("beside", 1.2)
    script.get(second)
    assert dict(by_function(critical_path(script.run()))) == {
        "first": pytest.approx(1.0),
        "second": pytest.approx(0.5),
    }


def test_parallelism_is_how_many_ran_in_each_stretch() -> None:
    script = Script(cpus=2)
    script.get(script.submit("a", 1.0), script.submit("b", 0.5))
    assert parallelism(script.run(), 2) == [pytest.approx(2.0), pytest.approx(1.0)]
    assert idle_share(script.run()) == pytest.approx(0.25)


def test_an_empty_run_has_neither() -> None:
    run = Script().run()
    assert (critical_path(run), parallelism(run, 5)) == ([], [])


def test_the_path_is_no_longer_than_the_run_where_tasks_run_inside_others() -> None:
    script = Script()
    outer = script.submit("outer", 0.004, process=1)
    inner = script.node("inner", 0.0005, start_s=0.0005, process=1, submit_s=0.0004)
    outer.program = [
        Op(SUBMIT, node=inner.key, at_s=0.0004),
        Op(WAIT, nodes=(inner.key,), at_s=0.0005, waited_s=0.0006),
    ]
    after = script.node("after", 0.0005, start_s=0.0035, process=1, submit_s=0.0, owner=b"other...")
    script.ops.append(Op(SUBMIT, node=after.key))
    script.get(outer, after)
    run = script.run()
    assert sum(each.seconds for each in critical_path(run)) == pytest.approx(run.length_s)
