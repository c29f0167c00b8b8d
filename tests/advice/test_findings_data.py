"""Faults of data, in runs made by hand."""

from pathlib import Path

import pytest

from sundog.advice.findings import Draft
from sundog.advice.findings_data import closure, large_argument, put_again, spilling, too_many_threads
from sundog.advice.run import CREATE, SUBMIT, Copy, FunctionLoad, LargeFunction
from sundog.advice.simulator import play
from sundog.advice.source import Sources
from sundog.plain import replaced
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
    assert play(draft.run).length_s == pytest.approx(0.42)  # the value is put once, which is a copy too


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


def _crowd(cpu_s: float, cores: int = 2) -> Script:
    script = Script(cpus=2, cores=cores)
    script.get(*[script.submit("blas", 1.0, cpu_s=cpu_s) for _ in range(2)])
    return script


def test_threads_that_wait_for_each_other_lose_the_time_in_which_not_all_have_a_core() -> None:
    # Two tasks of two threads on two cores: each thread has a core half of the time, both together a quarter of it.
    [draft] = too_many_threads(_crowd(1.0).run(threads={"blas": 1}), Sources())
    assert draft.kind == "too-many-threads"
    assert play(draft.run).length_s == pytest.approx(0.5)


def test_threads_beside_other_programs_lose_more_and_gain_no_more_than_their_share() -> None:
    # Each thread has a core a quarter of the time: as many threads of others want one. With one thread each, a third.
    [draft] = too_many_threads(_crowd(0.5).run(threads={"blas": 1}, others=0.5), Sources())
    assert play(draft.run).length_s == pytest.approx(0.125 / (1 / 3))


def test_threads_that_have_a_core_each_are_right() -> None:
    assert not list(too_many_threads(_crowd(2.0, cores=4).run(threads={"blas": 1}), Sources()))


def test_tasks_that_mostly_wait_have_threads_to_spare() -> None:
    assert not list(too_many_threads(_crowd(0.1).run(threads={"blas": 7}), Sources()))


def test_puts_are_taken_to_be_as_fast_as_before_the_store_was_full() -> None:
    script = Script()
    for seconds in (0.1, 0.1, 0.5):
        script.compute(seconds)
        script.submit("work", 0.0)
    puts = [(0.0, 0.1, 1 << 20, ""), (0.1, 0.2, 1 << 20, ""), (0.2, 0.7, 1 << 20, "")]
    run = script.run(puts=puts, spills=[(0.5, 0.3, 1 << 20, "spill"), (0.65, 0.1, 1 << 20, "restore")])
    [draft] = spilling(run, Sources())
    assert play(draft.run).length_s == pytest.approx(0.3)


PUTS = """
import sundog as ray
for rows in batches:
    ref = ray.put({value})
    refs.append(score.remote(ref, rows))
    {then}
"""


def _putting(tmp_path: Path, value: str, then: str) -> list[Draft]:
    file = tmp_path / "prog.py"
    file.write_text(PUTS.format(value=value, then=then))
    script = Script()
    puts = []
    for _ in range(4):
        puts.append((script.now, script.now + 0.5, 1 << 20, f"{file}:4 in run"))
        script.compute(0.5)
        script.submit("score", 0.1, site=f"{file}:5 in run")
    return list(put_again(script.run(puts=puts), Sources()))


def test_a_value_that_is_put_in_each_turn_is_found(tmp_path: Path) -> None:
    [draft] = _putting(tmp_path, "table", "pass")
    assert draft.kind == "large-argument"
    assert draft.site.endswith("prog.py:4 in run")
    assert play(draft.run).length_s == pytest.approx(0.6)  # one put, and the task behind it


@pytest.mark.parametrize(
    ("value", "then"),
    [("rows", "pass"), ("make(rows)", "pass"), ("table", "table = table + 1"), ("t", "t.add(1)")],
)
def test_values_that_differ_from_turn_to_turn_are_put_rightly(tmp_path: Path, value: str, then: str) -> None:
    assert _putting(tmp_path, value, then) == []


HELPERS = [
    ("def send(table, x):\n    return f.remote(ray.put(table), x)\nfor x in xs:\n    send(big, x)\n", "big"),
    (
        "def send(table, x):\n    return f.remote(ray.put(table), x)\nfor x in xs:\n    send(x=1, table=x)\n",
        "",
    ),
    ("def send(x):\n    return f.remote(ray.put(x), x)\nfor x in xs:\n    send(load(x))\n", ""),
    (
        "class A:\n    def send(self, x):\n        return f.remote(ray.put(self.table), x)\n"
        "    def run(self):\n        return [self.send(x) for x in xs]\n",
        "self.table",
    ),
    (
        "class A:\n    def send(self, x):\n        return f.remote(ray.put(self.table), x)\n"
        "    def run(self):\n        for x in xs:\n            self.table = load(x)\n            self.send(x)\n",
        "",
    ),
]


@pytest.mark.parametrize(("text", "name"), HELPERS)
def test_a_put_in_a_helper_that_a_loop_calls_is_in_its_loop(text: str, name: str, tmp_path: Path) -> None:
    file = tmp_path / "prog.py"
    file.write_text(f"import sundog as ray\n{text}")
    line = next(n for n, each in enumerate(file.read_text().splitlines(), 1) if "ray.put" in each)
    script = Script()
    puts = []
    for _ in range(4):
        puts.append((script.now, script.now + 0.5, 1 << 20, f"{file}:{line} in send"))
        script.compute(0.5)
    drafts = list(put_again(script.run(puts=puts), Sources()))
    assert [draft.evidence.partition(" ")[0] for draft in drafts] == ([f"put({name})"] if name else [])


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


def test_a_class_that_carries_data_is_sent_with_each_actor() -> None:
    script = Script()
    script.compute(0.2)
    for n in range(3):
        script.create("Model", bytes([n]), site="/x.py:4 in main")
        script.compute(0.15)
    script.get(*script.nodes)
    run = script.run(functions=[LargeFunction("Model", 1 << 28, 0.1, 0.0)])
    [draft] = closure(run, Sources())
    assert play(run).length_s == pytest.approx(0.65)
    assert play(draft.run).length_s == pytest.approx(0.1)  # the table is put once, which is a copy too


def test_how_long_threads_spun_is_left_open() -> None:
    script = Script(cpus=2, cores=2)
    script.get(*[script.submit("mul", 4.0, cpu_s=4.0, process=n, site="/x.py:4 in main") for n in range(2)])
    [draft] = too_many_threads(script.run(threads={"mul": 1}), Sources())
    assert draft.best is not None
    assert play(draft.best).length_s < play(draft.run).length_s


def test_a_put_in_the_place_of_a_captured_value_waits_for_the_session() -> None:
    script = Script()
    script.compute(0.1)
    script.get(*[script.submit("use", 0.1, lag_s=0.4, is_first=True, start_s=0.7) for _ in range(4)])
    run = script.run(functions=[LargeFunction("use", 1 << 28, 0.1, 0.0)])
    run = run.changed(costs=replaced(run.costs, node_s=0.3))
    [draft] = closure(run, Sources())
    assert play(draft.run).length_s == pytest.approx(0.3 + 0.1 + 0.02 + 0.1)


def test_submissions_are_slow_while_a_large_function_is_sent() -> None:
    script = Script(cpus=2)
    nodes = []
    for _ in range(3):
        script.compute(0.1)
        for n in range(6):
            if n == 1:
                script.compute(0.2)  # the function goes to the second worker
            start_s = script.now + 0.3 if n < 2 else script.now + 0.4
            nodes.append(script.submit("use", 0.01, start_s=start_s, process=n % 2 + 1))
            script.compute(0.0001)
        script.get(*nodes[-6:])
    made = [LargeFunction("use", 1 << 28, 0.05, nodes[6 * turn].submit_s - 0.1) for turn in range(3)]
    run = script.run(functions=made)
    [draft] = closure(run, Sources())
    assert play(run).length_s - play(draft.run).length_s == pytest.approx(3 * 0.3 - 0.05, abs=0.01)


def test_a_constructor_loads_its_class_no_more() -> None:
    script = Script()
    script.compute(0.2)
    for n in range(3):
        script.submit("Model.__init__", 0.25, kind=CREATE, actor=bytes([n]), resources={}, cpu_s=0.25)
    script.get(*script.nodes)
    [draft] = closure(script.run(functions=[LargeFunction("Model", 1 << 28, 0.1, 0.0)]), Sources())
    assert [draft.run.nodes[n].work_s for n in range(3)] == pytest.approx([0.2, 0.2, 0.2])


def test_the_recorded_time_to_load_a_function_is_in_the_first_task_of_each_process() -> None:
    script = Script(cpus=2, cores=2)
    script.compute(0.2)
    nodes = [script.submit("use", 0.3, cpu_s=0.3, process=n, is_first=True) for n in (1, 2)]
    nodes += [script.submit("use", 0.1, start_s=0.5, process=n) for n in (1, 2)]
    script.get(*nodes)
    loads = [FunctionLoad("use", n, 0.25, 0.2) for n in (1, 2)] + [
        FunctionLoad("other", 1, 0.1, 0.2),
        FunctionLoad("use", 7, 0.1, 0.2),
    ]
    run = script.run(functions=[LargeFunction("use", 1 << 28, 0.1, 0.0)], loads=loads)
    [draft] = closure(run, Sources())
    assert [node.work_s for node in draft.run.nodes] == pytest.approx([0.05, 0.05, 0.1, 0.1])
    assert "to load it there took 0.50 s" in draft.evidence


def test_modules_that_a_function_imports_are_imported_without_its_data_too() -> None:
    script = Script(cpus=2, cores=2)
    script.compute(0.2)
    nodes = [script.submit("use", 0.3, cpu_s=0.3, process=n, is_first=True) for n in (1, 2)]
    script.get(*nodes)
    loads = [FunctionLoad("use", 1, 0.25, 0.2, imported=150), FunctionLoad("use", 2, 0.25, 0.2, imported=1)]
    run = script.run(functions=[LargeFunction("use", 1 << 28, 0.1, 0.0)], loads=loads)
    [draft] = closure(run, Sources())
    assert [node.work_s for node in draft.run.nodes] == pytest.approx([0.2, 0.05])


def test_without_spilling_a_task_waits_for_its_arguments_no_longer_than_others() -> None:
    script = Script(cpus=1)
    ends = [0.1, 0.2, 0.3]
    nodes = [script.submit("use", 0.09, start_s=end - 0.09, lag_s=0.01, process=1) for end in ends]
    nodes.append(script.submit("use", 0.09, start_s=0.8, lag_s=0.5, process=1))
    script.get(*nodes)
    run = script.run(spills=[(0.5, 0.15, 1 << 24, "spill"), (0.75, 0.2, 1 << 24, "restore")])
    [draft] = spilling(run, Sources())
    assert draft.run.nodes[3].lag_s == pytest.approx(0.15)
    assert draft.run.nodes[2].lag_s == pytest.approx(0.01)
