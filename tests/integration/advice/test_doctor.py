"""The doctor on real sessions: what it reads is what ran, and a planted fault is found at its line."""

import asyncio
import inspect
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import sundog
from sundog.advice.doctor import doctor, examine
from sundog.advice.findings_waits import get_in_loop
from sundog.advice.run import SUBMIT, WAIT
from sundog.advice.simulator import play
from sundog.advice.source import Sources, place_of
from tests.advice.read import run_of
from tests.advice.runs import Script


def _line() -> int:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_a_get_in_a_loop_is_found_in_the_session_that_a_program_is_in(
    ray_session: Callable[..., ModuleType],
) -> None:
    ray = ray_session(num_cpus=4)

    @ray.remote
    def nap(x: int) -> int:
        time.sleep(0.2)
        return x

    out = []
    for x in range(6):
        out.append(ray.get(nap.remote(x)))
    line = _line() - 1
    report = sundog.doctor()
    assert report.tasks == 6
    run = run_of(report.session)
    # Whether it is worth saying depends on what else the machine does; that it is found does not.
    [draft] = get_in_loop(run, Sources())
    place = place_of(draft.site)
    assert place is not None
    assert (place.file, place.line) == (__file__, line)
    assert "+        out.append(nap.remote(x))" in draft.diff
    [program] = run.programs
    assert [op.node for op in program.ops if op.kind == SUBMIT] == list(range(6))
    assert {len(op.nodes) for op in program.ops if op.kind == WAIT} == {1}
    assert (run.cpus, run.nodes[0].name.rpartition(".")[2]) == (4.0, "nap")
    assert out == list(range(6))


def test_awaits_calls_children_and_copies_are_read(ray_session: Callable[..., ModuleType]) -> None:
    ray = ray_session(num_cpus=4)

    @ray.remote
    def leaf(data: bytes) -> int:
        time.sleep(0.01)
        return len(data)

    @ray.remote
    def tree() -> int:
        return sum(ray.get([leaf.remote(b"") for _ in range(2)]))

    @ray.remote
    class Actor:
        def call(self, _: int) -> int:
            time.sleep(0.01)
            return 1

    async def both() -> int:
        return int(await tree.remote() + await leaf.remote(b"x"))

    big = bytes(1 << 20)
    assert asyncio.run(both()) == 1
    actor = Actor.remote()
    first = actor.call.remote(1)
    assert ray.get([actor.call.remote(first), *[leaf.remote(big) for _ in range(3)]])[1:] == [1 << 20] * 3
    run = run_of()
    outer = next(node for node in run.nodes if node.name.endswith("tree"))
    assert outer.program is not None
    assert sum(op.kind == SUBMIT for op in outer.program) == 2
    calls = [node for node in run.nodes if node.name.endswith("Actor.call")]
    assert len({node.actor for node in calls}) == 1
    assert len({copy.mark for copy in run.copies}) == 1
    assert len(run.copies) == 3
    assert play(run).length_s > 0


def test_a_session_without_tasks_has_nothing_to_examine(ray_session: Callable[..., ModuleType]) -> None:
    ray_session(num_cpus=1)
    report = doctor()
    assert not report.findings
    assert "nothing to examine" in str(report)


def test_a_run_without_nodes_is_examined_without_error(tmp_path: Path) -> None:
    assert examine(Script().run()).findings == []
