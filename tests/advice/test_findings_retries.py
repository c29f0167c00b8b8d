"""Retries of the runtime and of the program, in runs made by hand."""

from pathlib import Path

import pytest

from sundog.advice.findings_retries import resubmitted, retries
from sundog.advice.run import Run
from sundog.advice.simulator import play
from sundog.advice.source import Sources
from tests.advice.runs import Script


def test_attempts_that_failed_are_found_with_what_they_took() -> None:
    script = Script()
    node = script.submit("flaky", 3.0, attempts=3, wasted_s=2.0, pause_s=0.5)
    node.end_s = 3.5
    script.get(node)
    run = script.run()
    [draft] = retries(run, Sources())
    assert draft.often == 2
    assert draft.cost_s == pytest.approx(2.5)
    assert play(run).length_s == pytest.approx(3.5)
    assert play(draft.run).length_s == pytest.approx(1.0)


def test_one_attempt_of_many_that_failed_is_not_told_of() -> None:
    script = Script(cpus=4)
    nodes = [script.submit("request", 0.05, start_s=n // 4 * 0.05) for n in range(60)]
    nodes.append(script.submit("request", 0.1, start_s=0.75, attempts=2, wasted_s=0.05))
    script.get(*nodes)
    assert not list(retries(script.run(), Sources()))


ROUNDS = """import sundog as ray
def main(todo):
    while todo:
        refs = {x: f.remote(x) for x in todo}
        failed = []
        for x, ref in refs.items():
            try:
                done.append(ray.get(ref))
            except ray.exceptions.RayTaskError:
                failed.append(x)
        todo = failed
"""
IN_HANDLER = """import sundog as ray
for x in xs:
    try:
        ray.get(f.remote(x))
    except OSError:
        ray.get(f.remote(x))
"""
TRIES = """import sundog as ray
def robust(x):
    for attempt in range(3):
        try:
            return ray.get(f.remote(x))
        except OSError:
            sleep(attempt)
print([robust(x) for x in xs])
"""
SKIPPED = """import sundog as ray
while batches:
    refs = [f.remote(x) for x in batches.pop()]
    for ref in refs:
        try:
            done.append(ray.get(ref))
        except ray.exceptions.RayTaskError:
            failed.append(ref)
"""
EACH_ONCE = """import sundog as ray
for x in xs:
    try:
        done.append(ray.get(f.remote(x)))
    except OSError as error:
        print(error)
        continue
"""


def _rounds(file: Path, text: str, line: int) -> Run:
    """Four tasks fail, and four follow them."""
    file.write_text(text)
    script = Script(cpus=4)
    for failed in (True, False):
        nodes = [script.submit("f", 0.5, site=f"{file}:{line} in main", failed=failed) for _ in range(4)]
        script.get(*nodes, site=f"{file}:{line + 3} in main")
    return script.run()


@pytest.mark.parametrize(("text", "line"), [(ROUNDS, 4), (IN_HANDLER, 6), (TRIES, 5)])
def test_tasks_that_the_program_submits_again_are_retries(tmp_path: Path, text: str, line: int) -> None:
    [draft] = resubmitted(_rounds(tmp_path / "prog.py", text, line), Sources())
    assert (draft.kind, draft.often, draft.cost_s) == ("retries", 4, 2.0)
    assert draft.site.startswith(f"{tmp_path / 'prog.py'}:{line}")
    assert play(draft.run).length_s == pytest.approx(0.5)


def test_retries_on_another_line_than_the_first_submissions_are_told_of_at_that_line(tmp_path: Path) -> None:
    file = tmp_path / "prog.py"
    file.write_text(IN_HANDLER)
    script = Script(cpus=4)
    for line, failed in ((4, True), (6, True), (6, False)):
        nodes = [script.submit("f", 0.5, site=f"{file}:{line} in main", failed=failed) for _ in range(4)]
        script.get(*nodes, site=f"{file}:{line} in main")
    [draft] = resubmitted(script.run(), Sources())
    assert (draft.site, draft.often) == (f"{file}:6 in main", 8)
    assert play(draft.run).length_s == pytest.approx(0.5)


@pytest.mark.parametrize(("text", "line"), [(SKIPPED, 3), (EACH_ONCE, 4)])
def test_tasks_that_fail_and_are_left_out_are_no_retries(tmp_path: Path, text: str, line: int) -> None:
    assert not list(resubmitted(_rounds(tmp_path / "prog.py", text, line), Sources()))
