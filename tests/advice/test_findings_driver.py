"""Faults of the program itself, in runs made by hand."""

from pathlib import Path

import pytest

from sundog.advice.findings_driver import driver_bound, serial_part
from sundog.advice.simulator import play
from sundog.advice.source import Sources
from tests.advice.runs import Script

EX3 = """import sundog as ray
def ex3():
    refs = []
    for i in range(5):
        other_func()
        refs.append(func.remote())
    ray.get(refs)
"""


def test_the_programs_own_time_in_a_loop_is_found_at_its_line(tmp_path: Path) -> None:
    file = tmp_path / "prog.py"
    file.write_text(EX3)
    script = Script(cpus=8)
    nodes = []
    for _ in range(5):
        script.compute(0.3)
        nodes.append(script.submit("func", 0.5, site=f"{file}:6 in ex3"))
    script.get(*nodes, site=f"{file}:7 in ex3")
    run = script.run()
    drafts = [draft for draft in serial_part(run, Sources()) if draft.often > 1]
    assert [draft.site for draft in drafts] == [f"{file}:5"]
    assert play(run).length_s == pytest.approx(2.0)
    assert play(drafts[0].run).length_s < 1.3


def test_what_a_generator_makes_in_each_turn_is_found_at_the_loop_over_it(tmp_path: Path) -> None:
    file = tmp_path / "prog.py"
    file.write_text(
        "import sundog as ray\ndef chunks(n):\n    for x in range(n):\n        yield parse(x)\n"
        "refs = []\nfor chunk in chunks(5):\n    refs.append(func.remote(chunk))\nray.get(refs)\n"
    )
    script = Script(cpus=8)
    nodes = []
    for _ in range(5):
        script.compute(0.3)
        nodes.append(script.submit("func", 0.5, site=f"{file}:7 in <module>"))
    script.get(*nodes, site=f"{file}:8 in <module>")
    drafts = [draft for draft in serial_part(script.run(), Sources()) if draft.often > 1]
    assert [draft.site for draft in drafts] == [f"{file}:6"]


def test_a_loop_that_keeps_to_the_clock_is_no_serial_part(tmp_path: Path) -> None:
    file = tmp_path / "prog.py"
    file.write_text(
        "import sundog as ray\nfor x in xs:\n    time.sleep(due - time.monotonic())\n    due += 1\n"
        "    refs.append(func.remote(x))\nray.get(refs)\n"
    )
    script = Script(cpus=8)
    nodes = []
    for _ in range(5):
        script.compute(0.3)
        nodes.append(script.submit("func", 0.1, site=f"{file}:5 in <module>"))
    script.get(*nodes, site=f"{file}:6 in <module>")
    assert not [draft for draft in serial_part(script.run(), Sources()) if draft.often > 1]


def test_one_long_stretch_is_split(tmp_path: Path) -> None:
    file = tmp_path / "prog.py"
    file.write_text("import sundog as ray\nray.get([f.remote(x) for x in xs])\ntotal = slow(1)\n")
    script = Script()
    script.get(
        *[script.submit("f", 1.0, site=f"{file}:2 in <module>") for _ in range(4)],
        site=f"{file}:2 in <module>",
    )
    script.compute(2.0)
    [draft] = serial_part(script.run(), Sources())
    assert draft.site == f"{file}:3"
    assert play(draft.run).length_s == pytest.approx(1.5)


def test_a_stretch_in_a_with_statement_is_found_at_what_the_statement_contains(tmp_path: Path) -> None:
    file = tmp_path / "prog.py"
    file.write_text(
        "import sundog as ray\nparts = ray.get([f.remote(x) for x in xs])\nwith timer('merge'):\n"
        "    total = parts[0]\n    for part in parts:\n        total = merge(total, part)\n"
    )
    script = Script()
    site = f"{file}:2 in <module>"
    script.get(*[script.submit("f", 1.0, site=site) for _ in range(4)], site=site)
    script.compute(2.0)
    [draft] = serial_part(script.run(), Sources())
    assert draft.site == f"{file}:5"


def test_stretches_that_need_each_other_are_split_each(tmp_path: Path) -> None:
    file = tmp_path / "prog.py"
    file.write_text(
        "import sundog as ray\nfor _ in range(4):\n    p = ray.get([f.remote(x) for x in p])\n    p = slow(p)\n"
    )
    script = Script()
    site = f"{file}:3 in <module>"
    for _ in range(4):
        script.get(*[script.submit("f", 0.1, site=site) for _ in range(4)], site=site)
        script.compute(0.4)
    [draft] = [each for each in serial_part(script.run(), Sources()) if each.often == 3]
    assert draft.site == f"{file}:4"
    assert "Split it" in draft.change
    assert play(draft.run).length_s == pytest.approx(1.1)


def test_time_in_which_others_had_the_cores_is_no_serial_part() -> None:
    script = Script()
    script.get(script.submit("f", 1.0, site="a.py:1 in f"), site="a.py:2 in f")
    script.compute(1.0)
    script.get(script.submit("f", 1.0, site="a.py:3 in f"), site="a.py:4 in f")
    run = script.run()
    assert list(serial_part(run, Sources()))
    run.programs[0].crowded = 0.9
    assert not list(serial_part(run, Sources()))


def test_time_in_calls_of_sundogs_own_is_no_work_of_the_program(tmp_path: Path) -> None:
    file = tmp_path / "prog.py"
    file.write_text(
        "import sundog\nfrom sundog.util.placement_group import placement_group\n"
        "group = placement_group([{'CPU': 1}])\nsundog.get(group.ready())\n"
    )
    script = Script()
    script.compute(1.0)
    script.get(script.submit("ready", 1.0, site=f"{file}:4 in <module>"), site=f"{file}:4 in <module>")
    assert not list(serial_part(script.run(), Sources()))


def test_a_short_stretch_is_none() -> None:
    script = Script()
    script.compute(0.05)
    script.get(script.submit("f", 2.0))
    assert not list(serial_part(script.run(), Sources()))


def test_many_slow_submissions_are_found() -> None:
    script = Script(cpus=8, cores=8)
    nodes = []
    for _ in range(100):
        script.compute(0.01)
        nodes.append(script.submit("f", 0.005, site="/x.py:4 in main"))
    script.get(*nodes)
    run = script.run()
    [draft] = driver_bound(run, Sources())
    assert (draft.kind, draft.often) == ("driver-bound", 99)
    assert play(run).length_s == pytest.approx(1.005)
    assert play(draft.run).length_s < 0.4


SEVERAL = """import sundog as ray
def parse(lines):
    for line in lines:
        work(line)
def main():
    ray.init()
    path = find()
    lines = [str(i) for i in range(9)]
    records = parse(lines)
    ray.get([f.remote(r) for r in records])
"""


@pytest.mark.parametrize(("others", "found"), [(0.0, True), (0.9, False)])
def test_of_several_statements_the_likeliest_is_named_unless_others_had_the_cores(
    tmp_path: Path, others: float, found: bool
) -> None:
    file = tmp_path / "prog.py"
    file.write_text(SEVERAL)
    script = Script()
    script.compute(2.0)
    nodes = [script.submit("f", 0.5, site=f"{file}:10 in main") for _ in range(4)]
    script.get(*nodes, site=f"{file}:10 in main")
    drafts = list(serial_part(script.run(others=others), Sources()))
    assert [draft.site for draft in drafts] == ([f"{file}:9"] if found else [])


def test_the_wait_of_a_first_put_for_the_session_is_no_serial_part(tmp_path: Path) -> None:
    file = tmp_path / "prog.py"
    file.write_text("import sundog as ray\ndata = ray.put(make())\nray.get([f.remote(data) for x in xs])\n")
    script = Script()
    script.compute(1.0)
    script.get(*[script.submit("f", 1.0, site=f"{file}:3 in <module>") for _ in range(4)])
    site = f"{file}:2 in <module>"
    [draft] = serial_part(script.run(), Sources())
    assert draft.cost_s == pytest.approx(1.0)
    assert not list(serial_part(script.run(puts=[(0.02, 0.98, 1 << 20, site)]), Sources()))
    [draft] = serial_part(script.run(puts=[(0.2, 0.4, 1 << 20, site)]), Sources())
    assert draft.cost_s == pytest.approx(0.8)
    assert play(draft.run).length_s == pytest.approx(1.4)  # the put stays, the rest is split in four


def _sending(count: int, own_s: float, file: Path, *, awaited: bool = False) -> Script:
    """A loop that works before each submission; `awaited`: and gets the result before it goes on."""
    file.write_text(
        "import sundog as ray\nfor x in xs:\n    y = prepare(x)\n    refs.append(f.remote(y))\n"
        "    ray.get(refs[-1])\nray.get(refs)\n"
    )
    script = Script(cpus=4)
    nodes = []
    for _ in range(count):
        script.compute(own_s)
        nodes.append(script.submit("f", 0.03, site=f"{file}:4 in <module>"))
        if awaited:
            script.get(nodes[-1], site=f"{file}:5 in <module>")
    script.get(*nodes, site=f"{file}:6 in <module>")
    return script


def test_many_submissions_that_the_program_prepares_for_long_are_bound_by_it(tmp_path: Path) -> None:
    run = _sending(40, 0.05, tmp_path / "prog.py").run()
    [draft] = driver_bound(run, Sources())
    assert draft.site == f"{tmp_path / 'prog.py'}:3"
    assert not list(serial_part(run, Sources()))
    crowded = _sending(40, 0.05, tmp_path / "prog.py").run()
    crowded.programs[0].crowded = 0.95  # it stood in line for a core, behind other programs
    crowded.length_s += 2.0
    assert not list(driver_bound(crowded, Sources()))
    crowded.length_s -= 2.0  # all of the run did: what the program computed is most of the rest
    assert list(driver_bound(crowded, Sources()))
    few = _sending(8, 0.05, tmp_path / "prog.py").run()
    assert not list(driver_bound(few, Sources()))
    assert list(serial_part(few, Sources()))


def test_long_stretches_between_gets_are_a_serial_part_however_many(tmp_path: Path) -> None:
    run = _sending(40, 0.05, tmp_path / "prog.py", awaited=True).run()
    assert not list(driver_bound(run, Sources()))
    assert list(serial_part(run, Sources()))


def test_what_the_program_does_with_results_while_tasks_run_is_no_serial_part(tmp_path: Path) -> None:
    file = tmp_path / "prog.py"
    file.write_text(
        "import sundog as ray\nrefs = [f.remote(x) for x in xs]\nwhile refs:\n"
        "    [one], refs = ray.wait(refs)\n    draw(ray.get(one))\n"
    )

    def drawing(last_s: float) -> Script:
        script = Script(cpus=8)
        nodes = [script.submit("f", 0.2, site=f"{file}:2 in <module>") for _ in range(7)]
        nodes.append(script.submit("f", last_s, site=f"{file}:2 in <module>"))
        for number in range(1, 9):
            script.get(*nodes, site=f"{file}:4 in <module>", wait=True, need=number)
            script.compute(0.2)
        return script

    assert not list(serial_part(drawing(1.5).run(), Sources()))
    assert not list(
        serial_part(drawing(1.1).run(), Sources())
    )  # the last stretches alone are a fifth of the run
    assert list(serial_part(drawing(0.2).run(), Sources()))
