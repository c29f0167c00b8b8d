"""Faults of waiting, in runs made by hand and programs written for them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sundog.advice.findings import Draft
from sundog.advice.findings_waits import get_in_loop, get_in_order, nested_get
from sundog.advice.run import COMPUTE, SUBMIT, WAIT, Op, Run
from sundog.advice.simulator import play
from sundog.advice.source import Sources
from tests.advice.runs import Script, serial_gets

LOOP = "import sundog as ray\nfor x in xs:\n    out.append(ray.get(work.remote(x)))\n"


def program(folder: Path, text: str) -> str:
    file = folder / "prog.py"
    file.write_text(text)
    return str(file)


def found(drafts: object) -> list[Draft]:
    return list(drafts)  # type: ignore[call-overload, no-any-return]


def test_a_get_in_a_loop_is_found_with_what_it_would_take_otherwise(tmp_path: Path) -> None:
    site = f"{program(tmp_path, LOOP)}:3 in <module>"
    [draft] = found(get_in_loop(serial_gets(8, 0.5, site).run(), Sources()))
    assert (draft.kind, draft.often, draft.site) == ("get-in-loop", 8, site)
    assert draft.cost_s == pytest.approx(4.0)
    assert play(draft.run).length_s == pytest.approx(1.0)
    assert "+    out.append(work.remote(x))" in draft.diff


def test_a_loop_whose_turns_need_each_other_is_none(tmp_path: Path) -> None:
    text = "import sundog as ray\nfor _ in range(9):\n    x = ray.get(work.remote(x))\n"
    site = f"{program(tmp_path, text)}:3 in <module>"
    assert not found(get_in_loop(serial_gets(8, 0.5, site).run(), Sources()))


def test_a_get_in_a_function_that_a_loop_calls_is_found(tmp_path: Path) -> None:
    text = (
        "import sundog as ray\ndef one(x):\n    return ray.get(work.remote(x))\nall_ = [one(x) for x in xs]\n"
    )
    site = f"{program(tmp_path, text)}:3 in one"
    assert [draft.kind for draft in found(get_in_loop(serial_gets(8, 0.5, site).run(), Sources()))] == [
        "get-in-loop"
    ]


WAITS = "import sundog as ray\nfor x in xs:\n    ray.wait([work.remote(x)])\n"


def test_a_wait_for_all_that_it_is_given_is_like_a_get(tmp_path: Path) -> None:
    site = f"{program(tmp_path, WAITS)}:3 in <module>"
    script = Script()
    for _ in range(6):
        script.get(script.submit("work", 0.5, site=site), site=site, wait=True, need=1)
    [draft] = found(get_in_loop(script.run(), Sources()))
    assert (draft.kind, draft.site) == ("get-in-loop", site)
    assert play(draft.run).length_s == pytest.approx(1.0)


def test_a_wait_for_the_first_of_several_is_none(tmp_path: Path) -> None:
    site = f"{program(tmp_path, WAITS)}:3 in <module>"
    script = Script()
    for _ in range(4):  # rounds of two, each taken as they come
        first, second = (script.submit("work", seconds, site=site) for seconds in (0.2, 0.5))
        script.get(first, second, site=site, wait=True, need=1)
        script.get(second, site=site, wait=True, need=1)
    assert not found(get_in_loop(script.run(), Sources()))


def test_a_pool_that_is_asked_for_one_at_a_time_would_use_all_its_actors(tmp_path: Path) -> None:
    text = (
        "import sundog as ray\nfor x in xs:\n    pool.submit(lambda a, v: a.f.remote(v), x)\n"
        "    out.append(pool.get_next())\n"
    )
    site = f"{program(tmp_path, text)}:4 in <module>"
    script = Script()
    for actor in (b"a", b"b"):
        script.create("A", actor, "/x.py:5 in main")
    for _ in range(6):
        script.get(script.call("A.f", 0.5, b"a", site=site), site=site)
    [draft] = found(get_in_loop(script.run(), Sources()))
    assert (draft.kind, draft.site) == ("get-in-loop", site)
    assert "pool" in draft.change
    assert play(draft.run).length_s == pytest.approx(1.5)


def test_the_calls_of_a_queue_in_a_loop_are_none(tmp_path: Path) -> None:
    text = "import sundog as ray\nfor x in xs:\n    out.append(queue.get())\n"
    site = f"{program(tmp_path, text)}:3 in <module>"
    script = Script()
    script.create("_QueueActor", b"queue", site)
    for _ in range(5):
        script.get(script.call("_QueueActor.get", 0.2, b"queue", site=site), site=site)
    assert not found(get_in_loop(script.run(concurrent=frozenset({b"queue"})), Sources()))


def test_calls_that_wait_for_other_calls_of_their_actor_are_none(tmp_path: Path) -> None:
    text = (
        "import sundog as ray\nfor x in xs:\n    out.append(ray.get(buffer.pop.remote()))\n"
        "class Buffer:\n    async def pop(self):\n        return await self.items.get()\n"
    )
    site = f"{program(tmp_path, text)}:3 in <module>"
    script = Script()
    script.create("Buffer", b"buffer", site)
    for _ in range(5):
        script.get(script.call("Buffer.pop", 0.2, b"buffer", site=site), site=site)
    assert not found(get_in_loop(script.run(concurrent=frozenset({b"buffer"})), Sources()))


def test_one_get_of_many_is_none(tmp_path: Path) -> None:
    script = Script()
    site = f"{program(tmp_path, LOOP)}:3 in <module>"
    script.get(*[script.submit("work", 0.5, site=site) for _ in range(4)], site=site)
    assert not found(get_in_loop(script.run(), Sources()))


def test_the_programs_own_time_stays_behind_its_get(tmp_path: Path) -> None:
    text = "import sundog as ray\nfor x in xs:\n    r = ray.get(work.remote(x))\n    use(r)\n"
    site = f"{program(tmp_path, text)}:3 in <module>"
    [draft] = found(get_in_loop(serial_gets(4, 0.5, site, gap_s=0.1).run(), Sources()))
    assert play(draft.run).length_s == pytest.approx(0.5 + 4 * 0.1)


def test_results_in_submission_order_are_found(tmp_path: Path) -> None:
    text = "import sundog as ray\nfor ref in refs:\n    use(ray.get(ref))\n"
    site = f"{program(tmp_path, text)}:3 in <module>"
    script = Script()
    nodes = [script.submit("work", seconds, site="x.py:1") for seconds in (2.0, 0.5, 0.5, 0.5)]
    script.get(nodes[0], site=site)
    script.compute(1.2)  # three results were there already, and were got without waiting
    run = script.run()
    [draft] = found(get_in_order(run, Sources()))
    assert play(run).length_s == pytest.approx(3.2)
    # 0.5 s until the first, three times 0.3 s of work meanwhile, the slow one at 2.0 s and its own 0.3 s.
    assert play(draft.run).length_s == pytest.approx(2.3)


def test_a_get_inside_a_call_that_holds_its_actor_is_found() -> None:
    script = Script()
    script.create("A", b"a")
    calls = []
    for n in range(3):
        inner = script.node("inner", 1.0, start_s=float(n))
        call = script.call("A.m", 0.0, b"a", start_s=float(n))
        call.program = [
            Op(SUBMIT, node=inner.key),
            Op(WAIT, nodes=(inner.key,), site="x.py:9 in m", waited_s=1.0, wake_s=0.0),
            Op(COMPUTE, 0.0),
        ]
        call.end_s = n + 1.0
        calls.append(call)
    script.get(*calls)
    run = script.run()
    [draft] = found(nested_get(run, Sources()))
    assert draft.cost_s == pytest.approx(3.0)
    assert play(run).length_s == pytest.approx(3.0)
    assert play(draft.run).length_s == pytest.approx(1.0)


def test_many_nested_gets_of_a_line_are_mended_with_one_look_at_the_programs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[int] = []
    original = Run.with_each_program

    def counted(run: Run, change: Callable[[list[Op]], list[Op]]) -> Run:
        looks.append(1)
        return original(run, change)

    monkeypatch.setattr(Run, "with_each_program", counted)
    script = Script(cpus=2)
    outer = [script.submit("outer", 1.0) for _ in range(30)]
    for node in outer:
        inner = script.node("inner", 0.5, start_s=0.5)
        wait = Op(WAIT, nodes=(inner.key,), site="/x.py:7 in outer", waited_s=1.0, at_s=0.5)
        node.program = [Op(SUBMIT, node=inner.key), wait, Op(COMPUTE, 0.25)]
    script.get(*outer)
    [draft] = found(nested_get(script.run(), Sources()))
    assert draft.often == 30
    assert len(looks) == 1
    ends = play(draft.run)
    assert ends.length_s == pytest.approx(30 * 0.75 / 2, rel=0.1)


def test_a_chain_of_nested_gets_ends_when_the_innermost_has() -> None:
    script = Script(cpus=4)
    top = script.submit("walk", 1.0)
    middle = script.node("walk", 1.0)
    last = script.node("walk", 0.5)
    for node, inner in ((top, middle), (middle, last)):
        wait = Op(WAIT, nodes=(inner.key,), site="/x.py:7 in walk", waited_s=1.0)
        node.program = [Op(SUBMIT, node=inner.key), wait]
    script.get(top)
    [draft] = found(nested_get(script.run(), Sources()))
    assert play(draft.run).length_s == pytest.approx(0.5)
