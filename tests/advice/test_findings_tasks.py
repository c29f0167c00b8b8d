"""Faults of tasks, in runs made by hand."""

from pathlib import Path

import pytest

from sundog.advice.findings import LEAST_SHARE
from sundog.advice.findings_tasks import (
    asked_site,
    bundled,
    memory_bound,
    stragglers,
    tasks_too_small,
    too_many_workers,
)
from sundog.advice.run import WAIT
from sundog.advice.simulator import play
from sundog.advice.source import Sources
from tests.advice.runs import Script


def test_tasks_that_work_less_than_they_cost_are_found() -> None:
    script = Script(cpus=2, cores=2)
    nodes = []
    for _ in range(400):
        script.compute(0.0003)
        nodes.append(script.submit("tiny", 0.00001, site="/x.py:3 in main"))
    script.get(*nodes)
    run = script.run()
    [draft] = tasks_too_small(run, Sources())
    assert (draft.kind, draft.often) == ("tasks-too-small", 400)
    assert play(draft.run).length_s < play(run).length_s / 4


def test_few_small_tasks_have_to_gain_more_than_the_start_of_workers_differs_by() -> None:
    shares = []
    for count in (60, 400):
        script = Script(cpus=2, cores=2)
        nodes = []
        for _ in range(count):
            script.compute(0.0003)
            nodes.append(script.submit("tiny", 0.00001))
        script.get(*nodes)
        shares += [draft.least_share for draft in tasks_too_small(script.run(), Sources())]
    assert shares == [0.1, LEAST_SHARE]


@pytest.mark.parametrize(("is_awaited", "count"), [(False, 1), (True, 0)])
def test_calls_that_work_less_than_they_cost_are_found_unless_each_is_awaited(
    is_awaited: bool, count: int
) -> None:
    script = Script(cpus=2, cores=2)
    script.create("A", b"a")
    calls = []
    for _ in range(400):
        script.compute(0.0003)
        calls.append(script.call("A.add", 0.00001, b"a", site="/x.py:3 in main"))
        if is_awaited:
            script.get(calls[-1], site="/x.py:3 in main")
    script.get(*calls)
    run = script.run()
    drafts = list(tasks_too_small(run, Sources()))
    assert [draft.kind for draft in drafts] == ["tasks-too-small"] * count
    for draft in drafts:
        assert play(draft.run).length_s < play(run).length_s / 4


def test_bundles_are_of_one_actor_each() -> None:
    script = Script()
    for actor in (b"a", b"b"):
        script.create("A", actor)
    calls = [script.call("A.add", 0.001, (b"a", b"b")[n % 2]) for n in range(20)]
    script.get(*calls)
    _, heads = bundled(script.run(), script.ops, [node.key for node in calls], 5)
    assert [(node.actor, round(node.work_s, 3)) for node in heads] == [(b"a", 0.005), (b"b", 0.005)] * 2


def test_tasks_that_work_long_enough_are_none() -> None:
    script = Script(cpus=2, cores=2)
    script.get(*[script.submit("work", 0.05, start_s=n // 2 * 0.05) for n in range(100)])
    assert not list(tasks_too_small(script.run(), Sources()))


def test_a_long_task_at_the_end_is_to_be_submitted_first_or_cut() -> None:
    script = Script(cpus=2)
    nodes = [script.submit("work", 0.5, start_s=n // 2 * 0.5, site="/x.py:3 in main") for n in range(6)]
    nodes.append(script.submit("work", 3.0, start_s=1.5, site="/x.py:3 in main"))
    script.get(*nodes)
    run = script.run()
    [draft] = stragglers(run, Sources())
    assert play(run).length_s == pytest.approx(4.5)
    assert play(draft.run).length_s == pytest.approx(3.0)
    assert "long ones first" in draft.change and "cut the long ones" in draft.change
    assert draft.best is not None and play(draft.best).length_s <= 3.0, "both ways are predicted"
    assert "first change" in draft.why_range


def test_a_long_task_that_is_first_is_to_be_cut_only_if_it_takes_twice_its_share() -> None:
    for long_s, expected in ((4.0, ["stragglers"]), (1.6, [])):
        script = Script(cpus=4)
        nodes = [script.submit("work", long_s, site="/x.py:3 in main")]
        nodes += [
            script.submit("work", 0.25, start_s=n // 3 * 0.25, site="/x.py:3 in main") for n in range(12)
        ]
        script.get(*nodes)
        assert [draft.kind for draft in stragglers(script.run(), Sources())] == expected


@pytest.mark.parametrize(
    ("cpu_s", "others", "expected"),
    [(0.25, 0.4, []), (0.25, 0.0, ["stragglers"]), (4.0, 0.4, ["stragglers"])],
    ids=["did no more than usual", "on a machine of its own", "did more than usual"],
)
def test_a_task_whose_core_others_had_is_no_straggler(
    cpu_s: float, others: float, expected: list[str]
) -> None:
    script = Script(cpus=4)
    nodes = [script.submit("work", 4.0, cpu_s=cpu_s, site="/x.py:3 in main")]
    nodes += [
        script.submit("work", 0.25, cpu_s=0.25, start_s=n // 3 * 0.25, site="/x.py:3 in main")
        for n in range(12)
    ]
    script.get(*nodes)
    run = script.run()
    run.others = others
    assert [draft.kind for draft in stragglers(run, Sources())] == expected


def test_what_a_program_prepares_for_each_task_is_not_taken_for_a_submission() -> None:
    script = Script(cpus=2, cores=2)
    nodes = []
    for _ in range(100):
        script.compute(0.01)
        nodes.append(script.submit("tiny", 0.001, site="/x.py:3 in main"))
    script.get(*nodes)
    assert not list(tasks_too_small(script.run(), Sources()))  # the driver is bound by it, and that is said


def test_tasks_of_like_length_have_no_straggler() -> None:
    script = Script(cpus=2)
    script.get(*[script.submit("work", 0.5 + n / 100, start_s=n // 2 * 0.6) for n in range(8)])
    assert not list(stragglers(script.run(), Sources()))


def test_memory_that_is_asked_for_and_not_used_is_found() -> None:
    script = Script()
    wants = {"CPU": 1.0, "memory": 6e9}
    nodes = [
        script.submit("load", 1.0, start_s=float(n), resources=wants, peak_bytes=1 << 30) for n in range(4)
    ]
    script.get(*nodes)
    run = script.run(resources={"memory": 8e9})
    [draft] = memory_bound(run, Sources())
    assert play(run).length_s == pytest.approx(4.0)
    assert play(draft.run).length_s == pytest.approx(1.0)


def test_more_workers_than_cores_that_each_warm_up_are_found() -> None:
    script = Script(cpus=8, cores=2)
    nodes = [script.submit("work", 4.0, cpu_s=1.0, is_first=True) for _ in range(8)]
    for n, node in enumerate(nodes):
        node.process = n + 1
    script.get(*nodes)
    run = script.run()
    [draft] = too_many_workers(run, Sources())
    assert (draft.kind, draft.often) == ("too-many-workers", 8)


def test_sleeping_tasks_may_be_more_than_cores() -> None:
    script = Script(cpus=8, cores=2)
    script.get(*[script.submit("sleep", 1.0) for _ in range(8)])
    assert not list(too_many_workers(script.run(), Sources()))


def test_tasks_that_ask_for_a_part_of_a_cpu_and_compute_are_too_many_workers() -> None:
    script = Script(cpus=2, cores=2)
    nodes = []
    for n in range(20):
        nodes.append(
            script.submit("work", 3.0, cpu_s=0.3, is_first=True, process=n + 1, resources={"CPU": 0.1})
        )
    script.get(*nodes)
    run = script.run()
    [draft] = too_many_workers(run, Sources())
    assert draft.often == 20
    assert {node.resources["CPU"] for node in draft.run.nodes} == {1.0}
    assert "every worker ran one task" in draft.evidence
    nodes[-1].process = 1  # a worker with two tasks: what it does once can be told
    [draft] = too_many_workers(run, Sources())
    assert "every worker ran one task" not in draft.evidence


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("@ray.remote(memory=5)\ndef f(): ...\n[f.remote() for _ in xs]", 2),
        ("@ray.remote\ndef f(): ...\nheavy = f.options(memory=5)\n\n[heavy.remote() for _ in xs]", 4),
        ("@ray.remote\ndef f(): ...\n[f.options(memory=5).remote() for _ in xs]", 4),
        ("@ray.remote\ndef f(): ...\n[f.remote() for _ in xs]", 4),
    ],
)
def test_the_line_that_gives_an_option_is_found(tmp_path: Path, text: str, line: int) -> None:
    file = tmp_path / "prog.py"
    file.write_text(f"import sundog as ray\n{text}\n")
    last = len(file.read_text().splitlines())
    assert asked_site(Sources(), "f", f"{file}:{last}", "memory") == f"{file}:{line}"


def test_a_program_that_came_late_to_its_get_waits_for_what_is_bundled() -> None:
    script = Script(cpus=1, cores=1)
    nodes = []
    for _ in range(100):
        script.compute(0.01)
        nodes.append(script.submit("f", 0.001))
    steps, heads = bundled(script.run(), script.ops, [node.key for node in nodes], 100)
    assert [op.nodes for op in steps if op.kind == WAIT] == [(0,)]
    assert heads[0].work_s == pytest.approx(0.1)


def test_a_long_task_in_each_round_is_late_in_its_round() -> None:
    """Which of the equal ones is the longest is a matter of microseconds: the first round counts like the last."""
    script = Script(cpus=4)
    for round_ in range(4):
        begin = script.now
        short = [script.submit("step", 0.1, start_s=begin) for _ in range(4)]
        long = script.submit("step", 0.9 - round_ * 1e-4, start_s=begin + 0.1)
        script.get(*short, long)
    [draft] = stragglers(script.run(), Sources())
    assert draft.often == 4


def test_workers_that_ran_one_task_each_leave_open_what_a_worker_does_once() -> None:
    script = Script(cpus=8, cores=2)
    tasks = [
        script.submit("load", 2.0, cpu_s=0.5, process=n + 1, is_first=True, resources={"CPU": 0.1})
        for n in range(8)
    ]
    script.get(*tasks)
    [draft] = too_many_workers(script.run(), Sources())
    assert draft.best is not None
    assert play(draft.best).length_s == pytest.approx(0.5)
    assert play(draft.run).length_s == pytest.approx(2.0)


def test_of_very_small_tasks_that_compute_a_loop_leaves_out_the_time_of_a_call() -> None:
    script = Script(cpus=2, cores=2)
    nodes = [script.submit("tiny", 2e-6, cpu_s=2e-6, site="/x.py:3 in main") for _ in range(1000)]
    script.get(*nodes)
    run = script.run()
    _, heads = bundled(run, script.ops, [node.key for node in nodes], 500)
    assert sum(node.work_s for node in heads) == pytest.approx(1000 * 0.8e-6)


def test_small_tasks_that_wait_take_as_long_in_a_loop() -> None:
    script = Script(cpus=2, cores=2)
    nodes = [script.submit("tiny", 5e-5, cpu_s=2e-6, site="/x.py:3 in main") for _ in range(1000)]
    script.get(*nodes)
    _, heads = bundled(script.run(), script.ops, [node.key for node in nodes], 500)
    assert sum(node.work_s for node in heads) == pytest.approx(0.05)
