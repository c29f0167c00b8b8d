"""What the runtime itself took, from the gaps of a run made by hand."""

import pytest

from sundog.advice.costs import CREW, costs_of, crews, own_children, set_lags, warm_ups
from sundog.advice.run import SUBMIT, WAIT, Op, Program
from tests.advice.runs import Script


def test_the_gap_between_two_tasks_of_a_worker_is_its_overhead() -> None:
    script = Script()
    for n in range(3):
        script.submit("work", 1.0, start_s=0.5 + n * 1.25, process=1)
    costs = costs_of(script.nodes, [Program(0, 0.0, 5.0, script.ops)])
    assert costs.busy_s == pytest.approx(0.25)
    assert costs.first_s == pytest.approx(0.5)


def test_each_start_has_its_own_lag() -> None:
    script = Script()
    first = script.submit("a", 1.0, start_s=0.25, process=1)
    second = script.submit("b", 1.0, start_s=1.5, process=1)
    late = script.submit("c", 1.0, start_s=3.0, process=2, deps=(second.key,))
    set_lags(script.nodes, [], {})
    assert [first.lag_s, second.lag_s, late.lag_s] == pytest.approx([0.25, 0.25, 0.5])
    assert (first.is_first, second.is_first) == (True, False)


def test_a_get_that_wakes_late_says_so() -> None:
    script = Script()
    script.get(script.submit("a", 1.0))
    script.ops[-1].waited_s = 1.25
    set_lags(script.nodes, [Program(0, 0.0, 2.0, script.ops)], {})
    assert script.ops[-1].wake_s == pytest.approx(0.25)


def test_the_first_task_of_a_worker_may_take_longer() -> None:
    script = Script()
    for worker in (1, 2):
        script.submit("work", 1.0, start_s=0.0, process=worker)
        for n in range(3):
            script.submit("work", 0.25, start_s=1.0 + n, process=worker)
    assert warm_ups(script.run()) == {"work": pytest.approx(0.75)}


def test_tasks_that_were_folded_into_one_have_no_lag_of_their_own() -> None:
    script = Script()
    folded = script.submit("tiny", 0.1, start_s=2.0, count=50, process=1)
    set_lags(script.nodes, [], {})
    assert (folded.lag_s, folded.is_first) == (0.0, False)


def test_a_task_that_waited_for_a_place_started_when_one_was_free() -> None:
    script = Script()
    script.submit("a", 1.0, start_s=0.1, process=1)
    late = script.submit("b", 1.0, start_s=1.3, process=2)
    set_lags(script.nodes, [], {"CPU": 1.0})
    assert late.lag_s == pytest.approx(0.2)
    set_lags(script.nodes, [], {"CPU": 2.0})
    assert late.lag_s == pytest.approx(1.3)


def test_the_least_pause_of_a_function_is_what_trying_again_takes() -> None:
    script = Script()
    pauses = [script.submit("flaky", 1.0, attempts=2, pause_s=each) for each in (0.1, 0.7)]
    set_lags(script.nodes, [], {})
    assert [node.pause_s for node in pauses] == [0.1, 0.1]


def test_an_attempt_that_stands_in_line_behind_other_tasks_has_no_pause_meanwhile() -> None:
    script = Script()
    runs = ((0.0, 1.0, 1), (2.1, 3.1, 1))
    flaky = script.submit("flaky", 2.0, start_s=0.0, attempts=2, pause_s=1.1, runs=runs, wasted_s=1.0)
    script.submit("other", 1.0, start_s=1.0, process=1)
    set_lags(script.nodes, [], {"CPU": 1.0})
    assert flaky.pause_s == pytest.approx(0.1)
    flaky.pause_s = 1.1
    set_lags(script.nodes, [], {"CPU": 2.0})
    assert flaky.pause_s == pytest.approx(1.1)


def test_the_only_worker_of_a_run_shows_what_its_first_task_imported() -> None:
    script = Script()
    for n in range(5):
        took = 1.0 if n == 0 else 0.1
        script.submit("work", took, start_s=n * 1.0, process=1, is_first=n == 0, cpu_s=0.9 * took)
    assert warm_ups(script.run()) == {"work": pytest.approx(0.9)}
    script.nodes[0].cpu_s = 0.0  # it slept: that may be its own work
    assert not warm_ups(script.run())


def test_the_start_of_a_worker_that_the_run_does_not_show_takes_a_core() -> None:
    script = Script()
    script.submit("work", 1.0, start_s=0.1, process=1)
    costs = costs_of(script.nodes, [Program(0, 0.0, 5.0, script.ops)])
    assert costs.boot_cpu_s > 0
    script.submit("work", 1.0, start_s=0.3, process=2)
    costs = costs_of(script.nodes, [Program(0, 0.0, 5.0, script.ops)])
    assert costs.boot_s == pytest.approx(0.3)
    assert costs.boot_cpu_s == 0.0


def test_a_worker_that_starts_late_is_not_taken_to_have_started_all_the_time() -> None:
    script = Script(cpus=1)
    first = script.submit("a", 5.0, start_s=0.2, process=1)
    late = script.submit("b", 1.0, start_s=4.0, process=2)  # the first one waits in a get, and lends its CPU
    set_lags(script.nodes, [], {"CPU": 1.0})
    assert first.lag_s == pytest.approx(0.2)
    assert late.lag_s == pytest.approx(0.2)


def test_a_worker_that_a_lent_cpu_was_for_started_when_it_was_lent() -> None:
    script = Script(cpus=1)
    first = script.submit("a", 5.0, start_s=0.5, process=1)
    first.program = [Op(WAIT, at_s=3.9, waited_s=1.0, nodes=(1,))]
    late = script.submit("b", 1.0, start_s=4.0, process=2)
    set_lags(script.nodes, [], {"CPU": 1.0})
    assert late.lag_s == pytest.approx(0.1)


def test_workers_that_wait_for_no_cpu_may_all_start_slowly() -> None:
    script = Script(cpus=1)
    nodes = [script.submit("a", 5.0, start_s=0.2 * (n + 1), process=n + 1, resources={}) for n in range(3)]
    set_lags(script.nodes, [], {"CPU": 1.0})
    assert [node.lag_s for node in nodes] == pytest.approx([0.2, 0.4, 0.6])


def test_calls_of_an_asyncio_actor_wait_for_its_constructor_only() -> None:
    script = Script()
    script.create("A", b"actor").end_s = 0.6
    calls = [script.call("A.ask", 0.5, b"actor", start_s=0.61) for _ in range(3)]
    for node in script.nodes:
        node.process = 1
    set_lags(script.nodes, [], {})
    assert [node.lag_s for node in calls] == pytest.approx([0.01] * 3)


def test_tasks_of_a_pool_have_places_in_its_crew() -> None:
    script = Script()
    nodes = [
        script.submit("f", 1.0, start_s=float(n // 2), process=n % 2 + 1, resources={}) for n in range(8)
    ]
    assert crews(script.nodes) == {CREW: 2.0}
    assert all(node.resources == {CREW: 1.0} for node in nodes)


def test_tasks_that_ask_for_nothing_and_start_at_once_are_no_crew() -> None:
    script = Script()
    for n in range(4):
        script.submit("f", 1.0, process=n + 1, resources={})
    assert crews(script.nodes) == {}


def test_a_task_that_ran_inside_its_parent_waited_for_no_worker_and_shares_its_processor_time() -> None:
    script = Script(cpus=2)
    child = script.node("walk", 0.1, start_s=0.5, process=1, cpu_s=0.1)
    parent = script.submit("walk", 0.5, start_s=0.0, process=1, cpu_s=0.9, end_s=1.0)
    parent.program = [Op(SUBMIT, node=child.key), Op(WAIT, nodes=(child.key,), at_s=0.1, waited_s=0.5)]
    assert own_children(script.nodes) == {"walk"}
    set_lags(script.nodes, [], {"CPU": 2.0})
    assert (child.lag_s, parent.cpu_s) == (0.0, 0.5)
    child.process = 2
    assert own_children(script.nodes) == frozenset()


def test_what_is_submitted_before_the_node_is_there_waits_for_it() -> None:
    script = Script()
    nodes = [script.submit("work", 1.0, start_s=0.3 + n * 0.01, process=n + 1) for n in range(2)]
    set_lags(script.nodes, [], {}, 0.25)
    assert [node.lag_s for node in nodes] == pytest.approx([0.05, 0.06])
    costs = costs_of(script.nodes, [Program(0, 0.0, 5.0, script.ops)], 0.25)
    assert (costs.first_s, costs.boot_s, costs.node_s) == pytest.approx((0.05, 0.06, 0.25))


def test_the_places_of_a_pool_are_known_though_nothing_stood_in_line() -> None:
    script = Script()
    for process in (1, 2, 3):
        script.submit("Pool", 0.0, process=process, resources={})
    tasks = []
    for _ in range(4):
        tasks.append(script.submit("digest", 0.1, process=1, resources={}))
        script.get(tasks[-1])
    assert crews(script.nodes) == {CREW: 3.0}
    assert [node.resources for node in tasks] == [{CREW: 1.0}] * 4
    assert not script.nodes[0].resources
