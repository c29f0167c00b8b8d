"""Faults of actors, in runs made by hand."""

from pathlib import Path

import pytest

from sundog.advice.findings import LEAST_SHARE
from sundog.advice.findings_actors import actor_per_item, one_actor, shared_by_alike, unbalanced_actors
from sundog.advice.simulator import play
from sundog.advice.source import Sources
from tests.advice.runs import Script


def test_one_actor_that_everything_waits_for_is_found_where_it_is_made() -> None:
    script = Script()
    script.create("A", b"a", site="/x.py:5 in main")
    script.get(*[script.call("A.m", 0.5, b"a", start_s=n * 0.5, site="/x.py:7 in main") for n in range(8)])
    [draft] = one_actor(script.run(), Sources())
    assert (draft.kind, draft.site, draft.often) == ("one-actor", "/x.py:5 in main", 8)
    assert play(draft.run).length_s == pytest.approx(1.0)


def test_calls_that_use_one_core_by_the_processors_clock_are_shared_among_all_cores() -> None:
    script = Script(cpus=2, cores=2)
    script.create("A", b"a")
    calls = [script.call("A.m", 0.5, b"a", start_s=n * 0.5) for n in range(8)]
    for node in calls:
        node.cpu_s = 0.5003  # read a moment after the wall clock
    script.get(*calls)
    [draft] = one_actor(script.run(), Sources())
    assert "Make 2 actors" in draft.change


def test_an_actor_that_is_called_when_it_is_free_is_none() -> None:
    script = Script()
    script.create("A", b"a")
    for _ in range(8):
        script.get(script.call("A.m", 0.5, b"a"))
    assert not list(one_actor(script.run(), Sources()))


def test_an_actor_that_keeps_something_is_to_be_shared_only_for_a_large_gain(tmp_path: Path) -> None:
    file = tmp_path / "prog.py"
    shares = []
    for body in ("self.seen += 1", "return 1"):
        file.write_text(f"import sundog as ray\nclass A:\n    def m(self):\n        {body}\n")
        script = Script()
        script.create("A", b"a", site=f"{file}:5 in main")
        site = f"{file}:7 in main"
        script.get(*[script.call("A.m", 0.5, b"a", start_s=n * 0.5, site=site) for n in range(8)])
        [draft] = one_actor(script.run(), Sources())
        shares.append(draft.least_share)
    assert shares == [0.2, LEAST_SHARE]


def test_a_concurrent_actor_is_none() -> None:
    script = Script()
    script.create("A", b"a")
    script.get(*[script.call("A.m", 0.5, b"a", start_s=n * 0.5) for n in range(8)])
    assert not list(one_actor(script.run(concurrent=frozenset({b"a"})), Sources()))


def test_one_of_several_actors_that_does_most_is_found() -> None:
    script = Script()
    for actor in (b"a", b"b"):
        script.create("A", actor)
    calls = [script.call("A.m", 0.5, b"a", start_s=n * 0.5, site="/x.py:9 in main") for n in range(7)]
    calls.append(script.call("A.m", 0.5, b"b", start_s=0.0))
    script.get(*calls)
    [draft] = unbalanced_actors(script.run(), Sources())
    assert draft.site == "/x.py:9 in main"
    assert play(draft.run).length_s == pytest.approx(2.0)


def test_actors_with_even_work_are_none() -> None:
    script = Script()
    calls = []
    for actor in (b"a", b"b"):
        script.create("A", actor)
        calls += [script.call("A.m", 0.5, actor, start_s=n * 0.5) for n in range(4)]
    script.get(*calls)
    assert not list(unbalanced_actors(script.run(), Sources()))


def made_again(count: int, at_once: bool) -> Script:
    """Actors that are each made, called once and dropped; one after the other, or all at once."""
    script = Script()
    calls = []
    for n in range(count):
        actor = bytes([65 + n])
        made = script.create("A", actor, site="/x.py:5 in main")
        made.work_s, made.end_s = 0.5, script.now + 0.5
        calls.append(script.call("A.m", 0.125, actor, start_s=script.now + 0.5))
        if not at_once:
            script.get(calls[-1])
    script.get(*calls)
    return script


def test_an_actor_that_is_made_for_each_item_is_found_where_it_is_made() -> None:
    [draft] = actor_per_item(made_again(8, at_once=False).run(), Sources())
    assert (draft.kind, draft.site, draft.often) == ("actor-per-item", "/x.py:5 in main", 8)
    assert play(draft.run).length_s == pytest.approx(0.5 + 8 * 0.125)


def test_actors_that_are_there_together_are_not_made_again_and_again() -> None:
    assert not list(actor_per_item(made_again(8, at_once=True).run(), Sources()))


def all_at_once(work_s: float, calls_each: int = 1) -> Script:
    """Twenty actors, all made before the first is called; each takes 0.2 s to be there."""
    script = Script(cpus=2, cores=2)
    made = [script.create("A", bytes([n]), site="/x.py:5 in main") for n in range(20)]
    for place, node in enumerate(made):
        node.start_s, node.end_s, node.lag_s = (
            0.1 * (place + 1),
            0.1 * (place + 1) + work_s,
            0.1 * (place + 1),
        )
        node.work_s = work_s
    calls = [
        script.call("A.m", 0.01, bytes([n]), start_s=made[n].end_s + 0.01 * turn, site="/x.py:7 in main")
        for turn in range(calls_each)
        for n in range(20)
    ]
    script.get(*calls)
    return script


def test_an_actor_for_each_item_is_found_though_all_are_there_at_a_time() -> None:
    [draft] = actor_per_item(all_at_once(0.001).run(), Sources())
    assert (draft.kind, draft.site) == ("actor-per-item", "/x.py:5 in main")
    assert "Make 2 of them" in draft.change


def test_what_the_constructors_of_actors_that_are_there_at_a_time_did_is_still_done() -> None:
    run = all_at_once(0.3).run()
    [draft] = actor_per_item(run, Sources())
    assert play(draft.run).length_s >= 10 * 0.3


def test_actors_that_are_there_at_a_time_and_are_called_again_keep_something() -> None:
    assert not list(actor_per_item(all_at_once(0.001, calls_each=2).run(), Sources()))


def test_calls_of_a_pool_are_shared_among_the_actors_of_one_line() -> None:
    script = Script()
    for actor in (b"a", b"b"):
        script.create("A", actor, site="/x.py:5 in main")
    calls = [script.call("A.m", 0.5, b"a") for _ in range(4)]
    run = shared_by_alike(script.run(), {node.key for node in calls})
    assert [run.nodes[node.key].actor for node in calls] == [b"a", b"b", b"a", b"b"]
