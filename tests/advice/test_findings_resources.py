"""CPUs that are asked for and not used, in runs made by hand."""

from pathlib import Path

import pytest

from sundog.advice.findings_resources import cpus_unused
from sundog.advice.simulator import play
from sundog.advice.source import Sources
from tests.advice.runs import Script

WIDE = {"CPU": 2.0}


def wide_tasks(cpu_s: float = 0.5, **fields: object) -> Script:
    """Tasks that ask for both CPUs, so that they run one after the other."""
    script = Script(cpus=2, cores=2)
    script.get(
        *[
            script.submit("f", 0.5, start_s=n * 0.5, cpu_s=cpu_s, resources=WIDE, **fields)  # type: ignore[arg-type]
            for n in range(6)
        ]
    )
    return script


def test_tasks_that_ask_for_two_cpus_and_use_one_are_found() -> None:
    [draft] = cpus_unused(wide_tasks().run(), Sources())
    assert (draft.kind, draft.often) == ("cpus-unused", 6)
    assert play(draft.run).length_s == pytest.approx(1.5, rel=0.1)


def test_tasks_that_use_the_cpus_they_ask_for_are_none() -> None:
    assert not list(cpus_unused(wide_tasks(cpu_s=0.9).run(), Sources()))


def test_tasks_with_threads_of_a_library_are_none_even_if_these_got_no_core() -> None:
    assert not list(cpus_unused(wide_tasks().run(threads={"f": 1}), Sources()))


def with_an_actor(calls: int) -> Script:
    """An actor keeps one of two CPUs; tasks run one after the other on the second one."""
    script = Script(cpus=2, cores=2)
    made = script.create("A", b"a", site="/x.py:9")
    made.resources = {"CPU": 1.0}
    tasks = [script.submit("f", 0.5, start_s=n * 0.5) for n in range(6)]
    script.get(*tasks, *[script.call("A.m", 0.5, b"a", start_s=n * 0.5) for n in range(calls)])
    return script


def test_an_actor_that_keeps_a_cpu_and_hardly_works_is_found() -> None:
    script = with_an_actor(0)
    script.get(script.call("A.m", 0.01, b"a"))
    run = script.run()
    assert play(run).length_s == pytest.approx(3.01)
    [draft] = cpus_unused(run, Sources())
    assert (draft.kind, draft.site) == ("cpus-unused", "/x.py:9")
    assert play(draft.run).length_s == pytest.approx(1.51)


def test_an_actor_that_works_on_its_cpu_is_none() -> None:
    assert not list(cpus_unused(with_an_actor(6).run(), Sources()))


def test_the_line_that_asks_is_named(tmp_path: Path) -> None:
    file = tmp_path / "prog.py"
    file.write_text(
        "import sundog as ray\n\n\n@ray.remote(num_cpus=2)\ndef f(x):\n    pass\n\n\nrefs = [f.remote(x) for x in xs]\n"
    )
    [draft] = cpus_unused(wide_tasks(site=f"{file}:9 in <module>").run(), Sources())
    assert draft.site == f"{file}:4"
