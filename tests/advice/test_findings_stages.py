"""A get between stages and a loop that sleeps, in runs made by hand and programs written for them."""

from pathlib import Path

import pytest

from sundog.advice.findings_stages import get_between_stages, polling
from sundog.advice.simulator import play
from sundog.advice.source import Sources
from tests.advice.runs import Script

STAGES = """import sundog as ray
tables = ray.get([read.remote(x) for x in xs])
refs = [clean.remote(table, 3) for table in tables]
print(ray.get(refs))
"""


def staged(file: Path, text: str) -> Script:
    """Four tasks of uneven length, then four that each take what one of them gave."""
    file.write_text(text)
    script = Script()
    first = [script.submit("read", 0.5 if n else 2.0, site=f"{file}:2 in <listcomp>") for n in range(4)]
    script.get(*first, site=f"{file}:2 in <module>")
    second = [script.submit("clean", 1.0, site=f"{file}:3 in <listcomp>") for _ in range(4)]
    script.get(*second, site=f"{file}:4 in <module>")
    return script


def test_a_get_whose_values_only_go_on_to_the_next_stage_is_found(tmp_path: Path) -> None:
    file = tmp_path / "prog.py"
    run = staged(file, STAGES).run(cpus=8.0, cores=8)
    assert play(run).length_s == pytest.approx(3.0)
    run.nodes[0].end_s, run.nodes[0].work_s = 2.0, 2.0
    run.nodes[4].work_s = 0.25  # the task behind the long one is short
    [draft] = get_between_stages(run, Sources())
    assert (draft.kind, draft.site) == ("get-between-stages", f"{file}:2 in <module>")
    assert play(draft.run).length_s == pytest.approx(2.25)
    assert "+tables = [read.remote(x) for x in xs]" in draft.diff


def test_a_stage_whose_results_an_object_keeps_for_its_next_method_is_found(tmp_path: Path) -> None:
    text = (
        "class A:\n    def read(self):\n        self.tables = ray.get([read.remote(x) for x in xs])\n"
        "    def clean(self):\n        return [clean.remote(table) for table in self.tables]\nimport sundog as ray\n"
    )
    file = tmp_path / "prog.py"
    script = staged(file, STAGES)
    file.write_text(text)
    for node in script.nodes:
        node.site = f"{file}:{3 if node.name == 'read' else 5} in f"
    script.ops[4].site = f"{file}:3 in read"
    run = script.run(cpus=8.0, cores=8)
    [draft] = get_between_stages(run, Sources())
    assert draft.site == f"{file}:3 in read"
    file.write_text(text + "print(A().tables)\n")
    assert not list(get_between_stages(run, Sources()))


@pytest.mark.parametrize(
    "text",
    [
        STAGES + "print(len(tables))\n",  # the program looks at the values
        STAGES.replace("clean.remote(table, 3)", "clean.remote(table[0], 3)"),  # a part of a value goes on
        STAGES.replace("clean.remote(table, 3)", "clean.remote([table], 3)"),  # in a list a ref stays a ref
        STAGES.replace("for table in tables", "for table in tables if table"),
    ],
)
def test_a_get_whose_values_the_program_needs_is_none(text: str, tmp_path: Path) -> None:
    run = staged(tmp_path / "prog.py", text).run(cpus=8.0, cores=8)
    assert not list(get_between_stages(run, Sources()))


POLLS = """import time
import sundog as ray
refs = [f.remote(x) for x in xs]
while len(ray.wait(refs, num_returns=len(refs), timeout=0)[0]) < len(refs):
    time.sleep(1)
print(ray.get(refs))
"""


def polled(file: Path, text: str) -> Script:
    file.write_text(text)
    script = Script()
    for _ in range(4):
        script.submit("f", 0.25, site=f"{file}:3 in <listcomp>")
    script.compute(1.0)
    return script


def test_a_loop_that_asks_a_queue_and_sleeps_is_found_too(tmp_path: Path) -> None:
    file = tmp_path / "prog.py"
    text = POLLS.replace(
        "len(ray.wait(refs, num_returns=len(refs), timeout=0)[0]) < len(refs)", "queue.empty()"
    )
    [draft] = polling(polled(file, text).run(), Sources())
    assert (draft.kind, draft.site) == ("polling", f"{file}:5")


def test_a_loop_that_sleeps_until_results_are_there_is_found_at_its_sleep(tmp_path: Path) -> None:
    file = tmp_path / "prog.py"
    [draft] = polling(polled(file, POLLS).run(), Sources())
    assert (draft.kind, draft.site) == ("polling", f"{file}:5")
    assert draft.cost_s == pytest.approx(0.75)
    assert play(draft.run).length_s == pytest.approx(0.25)


@pytest.mark.parametrize(
    "text",
    [
        POLLS.replace("    time.sleep(1)", "    pass"),
        POLLS.replace(
            "    time.sleep(1)", "    time.sleep(1); refs.append(f.remote(2))"
        ),  # it submits as it likes
        POLLS.replace(
            "while len(ray.wait(refs, num_returns=len(refs), timeout=0)[0]) < len(refs)", "while busy()"
        ),
    ],
)
def test_a_loop_that_does_not_wait_for_results_is_none(text: str, tmp_path: Path) -> None:
    assert not list(polling(polled(tmp_path / "prog.py", text).run(), Sources()))


GATHERED = """import asyncio
import sundog as ray
async def main():
    tables = await asyncio.gather(*[read.remote(x) for x in xs])
    refs = [clean.remote(table, 3) for table in tables]
    print(await asyncio.gather(*refs))
"""


def test_a_gather_whose_values_only_go_on_is_found_though_asyncio_awaits_them(tmp_path: Path) -> None:
    file = tmp_path / "prog.py"
    file.write_text(GATHERED)
    awaited = "/usr/lib/python3/asyncio/tasks.py:694 in _wrap_awaitable"
    script = Script()
    first = [script.submit("read", 0.5 if n else 2.0, site=f"{file}:4 in main.<listcomp>") for n in range(4)]
    script.get(*first, site=awaited)
    script.get(
        *[script.submit("clean", 1.0, site=f"{file}:5 in main.<listcomp>") for _ in range(4)], site=awaited
    )
    [draft] = get_between_stages(script.run(), Sources())
    assert draft.site == f"{file}:4"
    assert "tables = [read.remote(x) for x in xs]" in draft.diff


def test_a_loop_that_sleeps_in_a_function_called_behind_the_submission_is_found(tmp_path: Path) -> None:
    file = tmp_path / "prog.py"
    file.write_text(
        "import time\nimport sundog as ray\ndef collect(refs):\n    while refs:\n"
        "        ready, refs = ray.wait(refs, timeout=0)\n        time.sleep(0.5)\n"
        "def main():\n    collect([work.remote(x) for x in xs])\n"
    )
    script = Script()
    nodes = [script.submit("work", 0.1, site=f"{file}:8 in main.<listcomp>") for _ in range(4)]
    script.compute(0.5)
    script.get(*nodes, site=f"{file}:5 in collect")
    [draft] = polling(script.run(), Sources())
    assert (draft.kind, draft.site) == ("polling", f"{file}:6")
    assert play(draft.run).length_s == pytest.approx(0.1)
