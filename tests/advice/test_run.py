"""Runs: changed copies leave the recorded one as it was."""

from sundog.advice.run import COMPUTE, SUBMIT, WAIT, Op, op_with, ops_with_ready_results, with_
from tests.advice.runs import Script, serial_gets


def test_a_changed_copy_leaves_the_run_as_it_was() -> None:
    run = serial_gets(3, 0.5, "a.py:1").run()
    other = run.changed([with_(run.nodes[0], work_s=9.0)], cpus=8.0)
    assert (other.nodes[0].work_s, other.cpus) == (9.0, 8.0)
    assert (run.nodes[0].work_s, run.cpus) == (0.5, 4)


def test_a_program_is_replaced_for_one_driver_alone() -> None:
    run = serial_gets(3, 0.5, "a.py:1").run()
    other = run.with_ops(run.programs[0], [Op(COMPUTE, 1.0)])
    assert len(other.programs[0].ops) == 1
    assert len(run.programs[0].ops) == 6


def test_every_program_can_be_changed_that_of_tasks_too() -> None:
    run = serial_gets(1, 0.5, "a.py:1").run()
    run.nodes[0].program = [Op(COMPUTE, 1.0)]
    other = run.with_each_program(lambda ops: [op_with(op, seconds=op.seconds * 2) for op in ops])
    assert other.nodes[0].program is not None
    assert other.nodes[0].program[0].seconds == 2.0
    assert run.nodes[0].program[0].seconds == 1.0


def test_the_load_of_a_task_is_its_processor_time_by_its_time() -> None:
    node = serial_gets(1, 0.5, "").nodes[0]
    assert node.load == 0.0
    assert with_(node, cpu_s=1.0).load == 2.0


def test_a_driver_waits_also_for_results_that_were_ready_when_it_took_them() -> None:
    script = Script()
    slow, quick, late = script.submit("f", 1.0), script.submit("f", 0.5), script.submit("f", 2.0)
    script.get(slow)  # then it takes the quick one, which leaves no record
    script.compute(0.5)
    program = script.run().programs[0]
    ops = ops_with_ready_results(script.nodes, program)
    assert [op.nodes for op in ops if op.kind == WAIT] == [(slow.key,), (slow.key, quick.key)]
    assert ops[-1].kind == COMPUTE  # what the program does with the results comes after it has them
    assert late.key not in ops[-2].nodes  # the records do not show that its result was taken


def test_a_driver_without_a_recorded_wait_took_all_results_when_they_were_ready() -> None:
    script = Script()
    node = script.submit("f", 0.5)
    script.compute(1.0)
    assert ops_with_ready_results(script.nodes, script.run().programs[0])[-1].nodes == (node.key,)


def test_a_driver_waits_for_all_tasks_of_a_round_before_it_submits_the_next_one() -> None:
    script = Script()
    slow, quick = script.submit("f", 1.0), script.submit("f", 0.5)
    script.get(slow)
    second = script.submit("f", 1.0)
    script.get(second)
    waits = [
        op.nodes for op in ops_with_ready_results(script.nodes, script.run().programs[0]) if op.kind == WAIT
    ]
    assert waits[:3] == [(slow.key,), (slow.key, quick.key), (second.key,)]


def test_what_is_under_way_when_more_is_submitted_is_not_waited_for() -> None:
    script = Script()
    first, long = script.submit("f", 0.5), script.submit("f", 2.0)
    script.get(first, long, wait=True, need=1)
    third = script.submit("f", 0.5)
    script.get(long, third)
    ops = ops_with_ready_results(script.nodes, script.run().programs[0])
    assert [op.kind for op in ops[:4]] == [SUBMIT, SUBMIT, WAIT, SUBMIT]
    assert third.key in ops[-1].nodes
