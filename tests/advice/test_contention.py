"""Time that tasks waited for a core, taken out of what they took."""

import pytest

from sundog.advice.contention import power_of, untangle
from sundog.advice.run import Program
from sundog.advice.simulator import play
from tests.advice.runs import Script


def crowded(count: int, used_s: float) -> Script:
    script = Script(cpus=count, cores=2)
    script.get(*[script.submit("work", 2.0, cpu_s=used_s, process=n) for n in range(count)])
    return script


def test_four_tasks_that_compute_on_two_cores_would_take_half_the_time_alone() -> None:
    script = crowded(4, 1.0)
    untangle(script.nodes, [], 2)
    assert [node.work_s for node in script.nodes] == pytest.approx([1.0] * 4)
    assert play(script.run()).length_s == pytest.approx(
        2.0
    )  # played together they are in each other's way again


def test_sixteen_tasks_that_share_two_cores_compute_though_each_has_an_eighth_of_one() -> None:
    script = crowded(16, 0.25)
    untangle(script.nodes, [], 2)
    assert [node.work_s for node in script.nodes] == pytest.approx([0.25] * 16)


def test_tasks_that_sleep_or_have_cores_to_spare_stay_as_they_are() -> None:
    for count, used_s in ((4, 0.1), (2, 1.0)):
        script = crowded(count, used_s)
        untangle(script.nodes, [], 2)
        assert [node.work_s for node in script.nodes] == pytest.approx([2.0] * count)


def test_a_program_that_computes_takes_a_core_too() -> None:
    script = Script(cpus=2, cores=2)
    nodes = [script.submit("work", 2.0, cpu_s=1.2, process=n) for n in range(2)]
    script.compute(2.0)
    script.get(*nodes)
    untangle(script.nodes, [Program(0, 0.0, 2.0, script.ops, 1.0)], 2)
    assert nodes[0].work_s == pytest.approx(1.2)


@pytest.mark.parametrize(
    ("count", "used_s", "power"),
    [
        (8, 0.4, 1.6),  # eight that want two cores and get a fifth each
        (4, 0.1, 1.9),  # tasks that sleep tell nothing: a tenth of a core for the others
    ],
)
def test_the_power_of_the_machine_is_what_tasks_got_that_wanted_all_of_it(
    count: int, used_s: float, power: float
) -> None:
    assert power_of(crowded(count, used_s).nodes, [], 2) == pytest.approx(power)


def test_a_run_that_gets_less_than_all_cores_is_played_so() -> None:
    script = crowded(2, 2.0)
    assert play(script.run()).length_s == pytest.approx(2.0)
    assert play(script.run(power=1.6)).length_s == pytest.approx(2.5)
