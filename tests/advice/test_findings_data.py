"""Faults of data, in runs made by hand."""

from pathlib import Path

import pytest

from sundog.advice.findings_data import closure, large_argument, spilling, too_many_threads
from sundog.advice.run import SUBMIT, Copy, LargeFunction
from sundog.advice.simulator import play
from sundog.advice.source import Sources
from tests.advice.runs import Script


def passed(marks: list[int]) -> Script:
    script = Script()
    nodes = []
    for _ in marks:
        script.compute(0.2)
        nodes.append(script.submit("use", 0.1, site="/x.py:4 in main"))
    script.get(*nodes)
    return script


def copies(marks: list[int]) -> list[Copy]:
    return [
        Copy(n, b"driver..", 0.2, 1 << 24, mark, "/x.py:4 in main", n * 0.2) for n, mark in enumerate(marks)
    ]


def test_a_value_that_is_passed_again_and_again_is_found() -> None:
    marks = [7, 7, 7, 7]
    run = passed(marks).run(copies=copies(marks))
    [draft] = large_argument(run, Sources())
    assert (draft.site, draft.often) == ("/x.py:4 in main", 4)
    assert play(run).length_s == pytest.approx(0.9)
    assert play(draft.run).length_s == pytest.approx(0.3)


def test_other_values_of_the_same_size_are_none() -> None:
    marks = [1, 2, 3, 4]
    assert not list(large_argument(passed(marks).run(copies=copies(marks)), Sources()))


def test_a_function_that_carries_data_is_found_where_it_is_defined(tmp_path: Path) -> None:
    file = tmp_path / "prog.py"
    file.write_text(
        "import sundog as ray\nbig = make()\n@ray.remote\ndef use(i):\n    return big[i]\nuse.remote(1)\n"
    )
    script = Script()
    script.compute(0.3)
    nodes = [
        script.submit("use", 0.1, lag_s=0.4, is_first=True, start_s=0.7, site=f"{file}:6 in main")
        for _ in range(4)
    ]
    script.get(*nodes)
    run = script.run(functions=[LargeFunction("use", 1 << 28, 0.3, 0.0)])
    [draft] = closure(run, Sources())
    assert draft.site == f"{file}:4"
    assert "(big)" in draft.title
    assert play(run).length_s == pytest.approx(0.8)
    assert play(draft.run).length_s < 0.3


def test_a_captured_value_of_many_objects_is_given_to_few_tasks() -> None:
    script = Script(cpus=4, cores=2)
    script.compute(0.3)
    firsts = [script.submit("use", 0.4, cpu_s=0.2, is_first=True, process=n) for n in range(4)]
    later = [script.submit("use", 0.0, start_s=0.8, process=n) for n in range(4)]
    script.get(*firsts, *later)
    run = script.run(functions=[LargeFunction("use", 1 << 23, 0.2, 0.0)])
    [draft] = closure(run, Sources())
    assert "2 tasks a share" in draft.change
    assert len([op for op in draft.run.programs[0].ops if op.kind == SUBMIT]) == 2


def test_objects_that_come_back_from_disk_are_found() -> None:
    script = Script()
    node = script.submit("use", 1.0)
    script.get(node)
    run = script.run(spills=[(0.2, 0.2, 1 << 20, "spill"), (0.6, 0.3, 1 << 20, "restore")])
    [draft] = spilling(run, Sources())
    assert draft.cost_s == pytest.approx(0.5)
    assert play(draft.run).length_s == pytest.approx(0.5)
    assert not list(spilling(script.run(spills=[(0.2, 0.2, 1 << 20, "spill")]), Sources()))


def test_threads_beyond_the_cores_are_found() -> None:
    script = Script(cpus=4, cores=4)
    script.get(*[script.submit("blas", 1.0, cpu_s=1.0) for _ in range(4)])
    [draft] = too_many_threads(script.run(threads={"blas": 7}), Sources())
    assert draft.kind == "too-many-threads"
    assert not list(too_many_threads(script.run(threads={"blas": 1}), Sources()))


def test_puts_are_taken_to_be_as_fast_as_before_the_store_was_full() -> None:
    script = Script()
    for seconds in (0.1, 0.1, 0.5):
        script.compute(seconds)
        script.submit("work", 0.0)
    puts = [(0.0, 0.1, 1 << 20), (0.1, 0.2, 1 << 20), (0.2, 0.7, 1 << 20)]
    run = script.run(puts=puts, spills=[(0.5, 0.3, 1 << 20, "spill"), (0.65, 0.1, 1 << 20, "restore")])
    [draft] = spilling(run, Sources())
    assert play(draft.run).length_s == pytest.approx(0.3)


def test_a_function_that_is_defined_again_is_sent_again() -> None:
    script = Script(cpus=1)
    functions = []
    for n in range(3):
        functions.append(LargeFunction("work", 80 << 20, 0.1, script.now))
        script.compute(0.1)
        node = script.submit("work", 0.1, start_s=script.now + 0.5, lag_s=0.5, process=1, is_first=n == 0)
        script.get(node)
    run = script.run(functions=functions)
    [draft] = closure(run, Sources())
    assert play(run).length_s == pytest.approx(2.1)
    assert play(draft.run).length_s < 0.6
