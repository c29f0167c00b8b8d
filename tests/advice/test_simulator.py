"""The simulator: what it says of runs whose length is known by hand."""

import pytest

from sundog.advice.run import COMPUTE, SUBMIT, WAIT, Costs, Op, Run, RunNode, with_
from sundog.advice.simulator import play, totals
from sundog.plain import replaced
from tests.advice.runs import FREE, Script, serial_gets


def test_a_run_that_is_not_changed_takes_as_long_as_it_did() -> None:
    run = serial_gets(5, 0.5, "a.py:3", gap_s=0.1).run()
    assert play(run).length_s == pytest.approx(3.0)


def test_tasks_beyond_the_cpus_wait_for_their_turn() -> None:
    script = Script(cpus=2)
    nodes = [script.submit("work", 1.0, start_s=float(n // 2)) for n in range(5)]
    script.get(*nodes)
    assert play(script.run()).length_s == pytest.approx(3.0)
    assert play(script.run(cpus=5.0)).length_s == pytest.approx(1.0)


def test_an_actor_runs_its_calls_one_after_the_other_unless_it_is_concurrent() -> None:
    script = Script()
    script.create("A", b"a")
    calls = [script.call("A.m", 0.5, b"a", start_s=n * 0.5) for n in range(4)]
    script.get(*calls)
    run = script.run()
    assert play(run).length_s == pytest.approx(2.0)
    assert play(run.changed(concurrent=frozenset({b"a"}))).length_s == pytest.approx(0.5)


def test_a_task_waits_for_its_arguments() -> None:
    script = Script()
    first = script.submit("first", 1.0)
    second = script.submit("second", 0.5, start_s=1.0, deps=(first.key,))
    script.get(second)
    assert play(script.run()).length_s == pytest.approx(1.5)


def test_a_changed_run_lasts_until_results_are_there_whose_get_was_not_recorded() -> None:
    script = Script()
    first, second = script.submit("a", 1.0), script.submit("b", 0.5)
    script.get(first)  # `get(second)` follows: it was ready by then
    slower = script.run().changed([with_(second, work_s=3.0)])
    assert play(slower).length_s == pytest.approx(3.0)
    assert play(script.run()).length_s == pytest.approx(1.0)


def test_a_task_that_waits_in_a_get_lends_its_cpu() -> None:
    script = Script(cpus=1)
    inner = script.node("inner", 1.0, start_s=0.0)
    outer = script.submit("outer", 0.0)
    outer.program = [Op(SUBMIT, node=inner.key), Op(WAIT, nodes=(inner.key,), wake_s=0.0), Op(COMPUTE, 0.5)]
    outer.end_s = 1.5
    script.get(outer)
    assert play(script.run()).length_s == pytest.approx(1.5)


def test_tasks_of_tasks_take_turns_with_those_that_the_driver_has_in_line() -> None:
    script = Script(cpus=1)
    outer: list[RunNode] = []
    for _ in range(3):
        inner = script.node("inner", 1.0, owner=len(outer).to_bytes(8, "big"))
        node = script.submit("outer", 0.5)
        node.program = [
            Op(SUBMIT, node=inner.key),
            Op(WAIT, nodes=(inner.key,), wake_s=0.0),
            Op(COMPUTE, 0.5),
        ]
        outer.append(node)
    script.get(*outer)
    played = play(script.run())
    children = sorted(played.starts[node.key] for node in script.nodes if node.name == "inner")
    # The second outer task gets the CPU that the first one lends; then it is the turn of the first one's child.
    assert sorted(played.starts[node.key] for node in outer)[:2] == [0.0, 0.0]
    assert children[0] == 0.0
    assert max(played.starts[node.key] for node in outer) > 0.0


def _parent_and_child(child_process: int, name: str = "walk") -> Run:
    script = Script(cpus=1)
    child = script.node(name, 1.0, process=child_process)
    parent = script.submit("walk", 1.0, process=1, is_first=True)
    parent.program = [Op(SUBMIT, node=child.key), Op(WAIT, nodes=(child.key,), wake_s=0.0)]
    script.get(parent)
    return script.run(costs=Costs(5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0))


def test_a_worker_that_waits_runs_what_it_waits_for() -> None:
    assert play(_parent_and_child(1)).length_s == pytest.approx(1.0)
    # Another worker had to be started for it.
    assert play(_parent_and_child(2)).length_s == pytest.approx(6.0)
    assert play(_parent_and_child(2, "other")).length_s == pytest.approx(6.0)


def test_a_recursion_starts_no_worker_for_children_that_their_parent_runs() -> None:
    """The child has its CPU and waits for a new worker when its parent begins to wait for it."""
    script = Script(cpus=2)
    root = script.submit("walk", 0.0, process=1, is_first=True)
    left, right = (script.node("walk", 1.0, process=1, start_s=0.0) for _ in range(2))
    root.program = [Op(SUBMIT, node=each.key) for each in (left, right)]
    root.program.append(Op(WAIT, nodes=(left.key, right.key), wake_s=0.0))
    root.end_s = 2.0
    script.get(root)
    run = script.run(costs=Costs(5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    assert play(run).length_s == pytest.approx(2.0)


def test_a_task_takes_the_first_worker_that_is_free_and_not_the_one_that_was_started_for_it() -> None:
    script = Script(cpus=4, cores=1)
    first = script.submit("work", 1.0, process=1, is_first=True, resources={})
    later = [script.submit("work", 1.0, process=1, start_s=n + 1.0, resources={}) for n in range(2)]
    script.get(first, *later)
    run = script.run(costs=Costs(50.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    assert play(run).length_s == pytest.approx(3.0)


def test_a_node_starts_so_many_new_workers_at_a_time_and_no_more() -> None:
    script = Script(cpus=8, cores=1)
    script.get(*[script.submit("sleep", 10.0, process=1, resources={}) for n in range(4)])
    run = script.run(costs=Costs(1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    assert play(run).length_s == pytest.approx(12.0)  # two in the first second, two in the second


def test_computing_tasks_share_the_cores() -> None:
    script = Script(cpus=4, cores=2)
    nodes = [script.submit("burn", 1.0, start_s=float(n // 2), cpu_s=1.0) for n in range(4)]
    script.get(*nodes)
    # Four at a time on two cores: each takes twice as long.
    assert play(script.run()).length_s == pytest.approx(2.0)


def test_sleeping_tasks_do_not_need_a_core() -> None:
    script = Script(cpus=4, cores=1)
    nodes = [script.submit("sleep", 1.0) for _ in range(4)]
    script.get(*nodes)
    assert play(script.run()).length_s == pytest.approx(1.0)


def test_wait_ends_with_the_first_that_ends() -> None:
    script = Script()
    slow, quick = script.submit("slow", 2.0), script.submit("quick", 0.5)
    script.get(slow, quick, wait=True, need=1)
    script.compute(0.1)
    assert play(script.run()).length_s == pytest.approx(0.6)


def test_a_wait_for_what_nobody_submits_is_passed() -> None:
    script = Script()
    stranger = script.node("stranger", 1.0)
    script.get(stranger)
    script.compute(0.2)
    assert play(script.run()).length_s == pytest.approx(0.2)


def test_a_new_worker_takes_its_time_to_start() -> None:
    script = Script(cpus=2)
    nodes = [script.submit("work", 1.0, lag_s=0.25, is_first=True) for _ in range(2)]
    script.get(*nodes)
    assert play(script.run()).length_s == pytest.approx(1.25)


def test_memory_is_taken_like_cpus() -> None:
    script = Script()
    nodes = [script.submit("big", 1.0, resources={"CPU": 1.0, "memory": 6.0}) for _ in range(2)]
    script.get(*nodes)
    run = script.run(resources={"memory": 10.0})
    assert play(run).length_s == pytest.approx(2.0)
    slim = run.changed([with_(node, resources={"CPU": 1.0, "memory": 5.0}) for node in run.nodes])
    assert play(slim).length_s == pytest.approx(1.0)


def test_work_is_added_up_by_function() -> None:
    assert totals(serial_gets(4, 0.5, "").run()) == {"work": pytest.approx(2.0)}


def test_a_task_that_waits_for_what_it_submits_later_does_not_stop_the_play() -> None:
    script = Script()
    outer = script.submit("outer", 1.0)
    inner = script.node("inner", 0.5, submit_s=0.25, start_s=0.25)
    outer.program = [Op(WAIT, nodes=(inner.key,)), Op(SUBMIT, node=inner.key)]
    script.get(outer)
    assert play(script.run()).length_s == pytest.approx(0.75)


def test_a_task_that_waits_for_itself_by_the_records_does_not_stop_the_play() -> None:
    script = Script()
    outer = script.submit("outer", 1.0)
    outer.program = [Op(COMPUTE, 0.5), Op(WAIT, nodes=(outer.key,), at_s=0.5, waited_s=0.1), Op(COMPUTE, 0.4)]
    script.get(outer)
    assert play(script.run()).length_s == pytest.approx(0.9)


def test_an_asyncio_actor_that_is_held_runs_one_call_at_a_time() -> None:
    script = Script()
    script.create("A", b"actor")
    script.get(*[script.call("A.f", 0.5, b"actor", start_s=n * 0.5) for n in range(4)])
    free = script.run(concurrent=frozenset({b"actor"}))
    assert play(free).length_s == pytest.approx(0.5)
    assert play(free.changed(held=frozenset({b"actor"}))).length_s == pytest.approx(2.0)


def test_an_attempt_that_failed_stands_in_line_again() -> None:
    script = Script(cpus=1, cores=4)
    flaky = script.submit("flaky", 1.0, attempts=2, wasted_s=0.4)
    other = script.submit("other", 1.0, start_s=0.4)
    flaky.end_s = 2.0
    script.get(flaky, other)
    played = play(script.run())
    assert played.ends == pytest.approx([2.0, 1.4])


def test_each_attempt_that_failed_stands_in_line_again() -> None:
    script = Script(cpus=1, cores=4)
    flaky = script.submit("flaky", 1.0, attempts=3, wasted_s=0.4, pause_s=0.2)
    others = [script.submit("other", 0.5) for _ in range(2)]
    script.get(flaky, *others)
    assert play(script.run()).ends == pytest.approx([2.1, 0.7, 1.2])


def test_a_crowd_of_thousands_is_played_in_a_moment() -> None:
    script = Script(cpus=1, cores=2)
    nodes = [script.submit("f", 0.01, cpu_s=0.01, resources={}) for _ in range(2000)]
    script.get(*nodes)
    assert play(script.run()).length_s == pytest.approx(10.0, rel=0.03)


def test_workers_that_start_together_share_the_cores() -> None:
    script = Script(cpus=5, cores=2)
    nodes = [script.submit("work", 1.0, is_first=n == 0) for n in range(5)]
    script.get(*nodes)
    costs = Costs(0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, boot_cpu_s=0.2)
    assert play(script.run(costs=costs)).length_s == pytest.approx(0.1 + 4 * 0.2 / 2 + 1.0)


def test_an_actor_has_its_cpu_from_its_submission_on_also_while_its_process_starts() -> None:
    script = Script(cpus=2)
    made = script.create("A", b"a")
    made.resources, made.lag_s, made.start_s, made.end_s = {"CPU": 1.0}, 0.5, 0.5, 0.5
    tasks = [script.submit("f", 1.0, start_s=float(n)) for n in range(3)]
    tasks[0].is_first = True  # its worker is there at once
    script.get(*tasks)
    script.get(script.call("A.m", 0.0, b"a"))
    assert play(script.run()).length_s == pytest.approx(3.0)


def test_a_worker_that_waits_runs_what_it_waits_for_before_tasks_that_came_earlier() -> None:
    script = Script(cpus=1)
    outers = [script.submit("walk", 0.1, process=1, start_s=n * 0.3) for n in range(2)]
    inners = [script.node("walk", 0.2, process=1, start_s=outer.start_s + 0.1) for outer in outers]
    for outer in outers:
        outer.end_s += 0.2
    for outer, inner in zip(outers, inners, strict=True):
        outer.program = [
            Op(COMPUTE, 0.1),
            Op(SUBMIT, node=inner.key),
            Op(WAIT, nodes=(inner.key,)),
        ]
    script.get(*outers)
    played = play(script.run())
    assert played.starts[inners[0].key] == pytest.approx(0.1)
    assert played.starts[outers[1].key] == pytest.approx(0.3)
    assert played.length_s == pytest.approx(0.6)


def test_no_worker_starts_before_the_node() -> None:
    script = Script(cpus=2)
    nodes = [script.submit("work", 1.0, lag_s=0.25, is_first=True) for _ in range(2)]
    script.get(*nodes)
    run = script.run(costs=replaced(FREE, node_s=0.5))
    assert play(run).length_s == pytest.approx(1.75)


def test_a_worker_that_is_wanted_late_does_not_wait_for_the_node() -> None:
    script = Script(cpus=2)
    script.compute(2.0)
    script.get(script.submit("work", 1.0, lag_s=0.25, is_first=True))
    assert play(script.run(costs=replaced(FREE, node_s=0.5))).length_s == pytest.approx(3.25)


def test_an_actor_that_the_run_did_not_have_does_not_start_before_the_node() -> None:
    script = Script()
    script.create("A", b"a")
    script.get(script.call("A.f", 1.0, b"a"))
    run = script.run(costs=replaced(FREE, node_s=0.5, create_s=0.25))
    fresh = run.changed([with_(run.nodes[0], lag_s=-1.0)])
    assert play(fresh).length_s == pytest.approx(1.75)


def test_a_second_worker_that_the_run_did_not_have_starts_beside_the_first() -> None:
    script = Script(cpus=1)
    nodes = [script.submit("work", 1.0, lag_s=0.25 * (n == 0), is_first=n == 0) for n in range(2)]
    script.get(*nodes)
    run = script.run(costs=replaced(FREE, node_s=0.5, boot_s=0.1, first_s=0.25), cpus=2.0)
    assert play(run).length_s == pytest.approx(1.75)
