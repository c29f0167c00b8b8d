"""Functions that submit themselves, in runs made by hand."""

from __future__ import annotations

from sundog.advice.findings_recursion import small_recursion
from sundog.advice.run import COMPUTE, SUBMIT, WAIT, Op, RunNode
from sundog.advice.simulator import play
from sundog.advice.source import Sources
from tests.advice.runs import Script

SITE = "/x.py:10 in ways"
COST_S = 0.0005  # of each submission


def tree(script: Script, depth: int, work_s: float, at_s: float = 0.0) -> RunNode:
    """A task that submits two of its kind, and so on; each worker takes half a millisecond for one."""
    node = script.node("ways", work_s, start_s=at_s, site=SITE)
    node.submit_s = at_s
    if depth:
        below = [tree(script, depth - 1, work_s, at_s + (n + 1) * COST_S) for n in range(2)]
        ops = [Op(COMPUTE, work_s)]
        for each in below:
            ops += [Op(COMPUTE, COST_S), Op(SUBMIT, node=each.key, site=SITE)]
        node.program = [*ops, Op(WAIT, nodes=tuple(each.key for each in below))]
        node.end_s = max(each.end_s for each in below) + COST_S * 2**depth
    return node


def recursive(depth: int, work_s: float) -> Script:
    script = Script(cpus=2, cores=2)
    top = tree(script, depth, work_s)
    top.site = "/x.py:15 in <module>"
    script.ops.append(Op(SUBMIT, node=top.key, site=top.site))
    script.get(top)
    return script


def test_a_recursion_down_to_the_last_step_is_found_at_the_line_that_calls_itself() -> None:
    run = recursive(7, 0.00001).run()
    [draft] = small_recursion(run, Sources())
    assert (draft.kind, draft.site, draft.often) == ("tasks-too-small", SITE, 255)
    assert "254 of the 255 tasks are not needed" in draft.change
    assert play(draft.run).length_s < play(run).length_s / 4


def test_a_recursion_whose_tasks_work_long_enough_is_not_told_of() -> None:
    assert not list(small_recursion(recursive(6, 0.05).run(), Sources()))


def test_subtrees_that_work_long_enough_stay_tasks() -> None:
    run = recursive(7, 0.0004).run()  # 255 tasks with 0.1 s of work: five or more tasks of 20 ms remain
    [draft] = small_recursion(run, Sources())
    left = [node for node in draft.run.nodes if node.program is None and node.work_s > 0.001]
    assert len(left) >= 4
    assert abs(sum(node.work_s for node in left) - 255 * 0.0004) < 0.01


def test_a_task_that_is_waited_for_elsewhere_is_not_left_out() -> None:
    script = recursive(7, 0.00001)
    script.ops.append(Op(WAIT, nodes=(script.nodes[-1].key,)))
    assert not list(small_recursion(script.run(), Sources()))


def test_a_loop_that_submits_small_tasks_is_no_recursion() -> None:
    script = Script(cpus=2, cores=2)
    script.get(*[script.submit("tiny", 0.00001) for _ in range(200)])
    assert not list(small_recursion(script.run(), Sources()))
