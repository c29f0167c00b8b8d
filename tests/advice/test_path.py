"""The critical path, parallelism and idle time of runs made by hand."""

import pytest

from sundog.advice.path import PROGRAM, by_function, critical_path, idle_share, parallelism
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
