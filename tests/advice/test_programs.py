"""Steps of programs, from submissions and waits that are written down."""

from sundog.advice.programs import build_programs
from sundog.advice.reading import Finder, Span
from sundog.advice.run import COMPUTE, INIT, SUBMIT, WAIT, Program
from tests.advice.runs import Script

DRIVER = b"driver.."


def span(
    start: float, end: float, first: int, last: int, count: int, *, wait: bool = False, process: int = 9
) -> Span:
    return Span(
        process, start, end, DRIVER + first.to_bytes(8, "little"), count, last, "/x.py:1 in f", wait, 1
    )


def built(script: Script, spans: list[Span], end: float) -> Program:
    program = Program(9, 0.0, end, [])
    build_programs([program], script.nodes, spans, Finder(script.nodes), {9: DRIVER, 1: b"worker.."}, False)
    return program


def test_time_between_steps_is_the_programs_own() -> None:
    script = Script()
    script.now = 0.5
    script.submit("a", 1.0)
    program = built(script, [span(0.75, 1.5, 0, 0, 1)], 2.0)
    assert [(op.kind, op.seconds) for op in program.ops] == [
        (COMPUTE, 0.5), (SUBMIT, 0.0), (COMPUTE, 0.25), (WAIT, 0.0), (COMPUTE, 0.5),
    ]  # fmt: skip
    assert program.ops[3].nodes == (0,)


def test_a_get_of_many_waits_for_all_between_its_first_and_last() -> None:
    script = Script()
    for _ in range(5):
        script.submit("a", 1.0)
    assert built(script, [span(0.0, 1.0, 1, 3, 3)], 1.0).ops[-1].nodes == (1, 2, 3)


def test_a_wait_needs_those_that_were_taken_out_before_and_one_more() -> None:
    script = Script()
    for n in range(4):
        script.submit("a", 1.0 + n)
    op = built(script, [span(1.5, 2.0, 0, 3, 3, wait=True)], 2.0).ops[-1]
    assert (op.nodes, op.need, op.is_wait) == ((0, 1, 2, 3), 2, True)


def test_waits_that_overlap_are_one_and_what_is_submitted_meanwhile_follows() -> None:
    script = Script()
    first, second = script.submit("a", 1.0), script.submit("b", 1.25)
    script.now = 1.01
    third = script.submit("c", 1.0)
    spans = [span(0.1, 1.0, 0, 0, 1), span(0.1, 1.25, 1, 1, 1), span(1.02, 2.01, 2, 2, 1)]
    program = built(script, spans, 2.01)
    assert [op.nodes for op in program.ops if op.kind == WAIT] == [(first.key, second.key, third.key)]
    assert third.deps == (first.key,)


def test_what_a_worker_did_is_of_the_task_that_ran_in_it() -> None:
    script = Script()
    outer = script.submit("outer", 2.0, process=1)
    inner = script.node("inner", 1.0, owner=b"worker..", process=2, submit_s=0.5, start_s=0.5)
    waited = Span(
        1, 0.75, 1.5, b"worker.." + inner.number.to_bytes(8, "little"), 1, inner.number, "", False, 1
    )
    built(script, [waited], 2.0)
    assert outer.program is not None
    assert [op.kind for op in outer.program] == [COMPUTE, SUBMIT, COMPUTE, WAIT, COMPUTE]
    assert outer.work_s == 0.5 + 0.25 + 0.5


def test_a_task_that_runs_in_the_process_of_the_one_that_waits_for_it_is_part_of_the_wait() -> None:
    script = Script()
    outer = script.submit("outer", 3.0, process=1)
    script.node(
        "inner", 0.875, owner=b"worker..", process=1, submit_s=0.5, start_s=0.625, number=1, last_number=1
    )
    script.node(
        "inner", 1.0, owner=b"worker..", process=2, submit_s=0.5, start_s=1.0, number=2, last_number=2
    )
    waited = Span(1, 1.5625, 2.0, b"worker.." + (1).to_bytes(8, "little"), 2, 2, "/x.py:9 in f", False, 1)
    built(script, [waited], 3.0)
    assert outer.program is not None
    waits = [op for op in outer.program if op.kind == WAIT]
    assert [(op.at_s, op.waited_s, op.site) for op in waits] == [(0.625, 1.375, "/x.py:9 in f")]
    assert outer.work_s == 0.5 + 0.125 + 1.0


def test_a_wait_behind_many_tasks_that_ran_inside_is_of_the_task_around_them() -> None:
    script = Script()
    outer = script.submit("outer", 2.0, process=1)
    for n in range(40):  # the worker ran them itself while it waited, one after the other
        script.node("small", 0.01, owner=b"worker..", process=1, submit_s=0.1, start_s=0.2 + n * 0.01)
    last = script.node("last", 1.0, owner=b"worker..", process=2, submit_s=0.1, start_s=0.9)
    waited = Span(1, 0.7, 1.9, b"worker.." + last.number.to_bytes(8, "little"), 1, last.number, "", False, 1)
    built(script, [waited], 2.0)
    assert outer.program is not None
    assert outer.work_s < 0.5
    assert any(op.kind == WAIT and last.key in op.nodes for op in outer.program)


def test_a_wait_that_ends_with_the_task_it_waited_for_is_of_the_task_around_it() -> None:
    script = Script()
    outer = script.submit("outer", 2.0, process=1)
    inner = script.node("inner", 1.0, owner=b"worker..", process=1, submit_s=0.25, start_s=0.5)
    waited = Span(
        1, 1.5, 1.5, b"worker.." + inner.number.to_bytes(8, "little"), 1, inner.number, "", False, 1
    )
    built(script, [waited], 2.0)
    assert inner.program is None
    assert outer.program is not None
    assert [op.nodes for op in outer.program if op.kind == WAIT] == [(inner.key,)]


def test_the_time_until_init_returned_is_a_step_of_its_own() -> None:
    script = Script()
    script.now = 2.0
    script.submit("a", 1.0)
    program = Program(9, 0.0, 3.0, [], joined_s=0.5)
    build_programs([program], script.nodes, [], Finder(script.nodes), {9: DRIVER}, False)
    assert [(op.seconds, op.site) for op in program.ops[:2]] == [(0.5, INIT), (1.5, "")]
