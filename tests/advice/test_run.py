"""Runs: changed copies leave the recorded one as it was."""

from sundog.advice.run import COMPUTE, Op, op_with, with_
from tests.advice.runs import serial_gets


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
