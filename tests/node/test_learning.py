"""Which packages the zygote is asked to learn, without a zygote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sundog.config import Config
from sundog.node.learning import Learning
from sundog.wire.control import Imported
from sundog.wire.zygote import Import, Learn, Learned
from tests.node.fakes import FakeLine, FakeNode, FakeProcess


def _learning() -> tuple[Any, Any]:
    node: Any = FakeNode()
    zygote = node.workers.zygote = FakeLine()
    return Learning(node), zygote


def _worker(name: bytes) -> Any:
    return FakeProcess(name, kind="worker")


def test_the_second_worker_that_imports_a_package_decides() -> None:
    learning, zygote = _learning()
    message = Imported([("/site-packages", "lib"), ("/site-packages", "lib.part")])
    learning.imported(_worker(b"a"), message)
    learning.worker_starts()
    assert zygote.sent == [] and learning.figures()["due"] == []
    learning.imported(_worker(b"b"), message)
    assert learning.figures()["due"] == ["lib"]
    learning.worker_starts()
    assert zygote.sent == [Learn(["/site-packages"], ["lib", "lib.part"], ["lib"])]
    learning.imported(_worker(b"c"), message)
    learning.worker_starts()
    assert len(zygote.sent) == 1 and learning.figures()["due"] == []


def test_nothing_is_learned_while_no_worker_is_started() -> None:
    learning, zygote = _learning()
    for name in (b"a", b"b", b"c"):
        learning.imported(_worker(name), Imported([("/site-packages", "lib")]))
    assert zygote.sent == []


def test_the_first_decides_about_what_the_driver_has_loaded() -> None:
    learning, zygote = _learning()
    learning.driver_came(["lib"], ["/site-packages"])
    learning.imported(_worker(b"a"), Imported([("/site-packages", "lib"), ("/site-packages", "other")]))
    learning.worker_starts()
    assert [each.modules for each in zygote.sent] == [["lib"]]


def test_a_package_that_workers_found_in_different_folders_is_not_learned() -> None:
    learning, zygote = _learning()
    learning.imported(_worker(b"a"), Imported([("/one/site-packages", "lib")]))
    learning.imported(_worker(b"b"), Imported([("/two/site-packages", "lib")]))
    learning.worker_starts()
    assert zygote.sent == []


def test_runtime_environments_and_other_import_paths_end_the_lessons() -> None:
    ends: list[Callable[[Any], None]] = [
        lambda learning: learning.environment_came({"env_vars": {"A": "1"}}),
        lambda learning: learning.driver_came([], ["/elsewhere"]),
    ]
    for end in ends:
        learning, zygote = _learning()
        learning.driver_came(["lib"], ["/here"])
        learning.environment_came({})
        assert learning.why_not == ""
        end(learning)
        assert learning.why_not
        learning.imported(_worker(b"a"), Imported([("/site-packages", "lib")]))
        learning.worker_starts()
        assert zygote.sent == []


def test_a_worker_that_is_forked_for_an_actor_finds_what_the_actor_needs() -> None:
    learning, zygote = _learning()
    learning.before_fork(zygote)
    assert zygote.sent == []
    with learning.actor_comes(["asyncio", "ours"]):
        learning.before_fork(zygote)
        learning.before_fork(zygote)
    assert zygote.sent == [Import([("asyncio", ""), ("ours", "")])]


def test_other_workers_have_it_once_two_actors_have_needed_it() -> None:
    learning, zygote = _learning()
    for needed in ([], ["asyncio"]):
        with learning.actor_comes(needed):
            pass  # an idle worker takes the actor
        learning.before_fork(zygote)
    assert zygote.sent == []
    with learning.actor_comes(["asyncio"]):
        pass
    learning.before_fork(zygote)
    assert zygote.sent == [Import([("asyncio", "")])]


def test_each_zygote_imports_what_actors_need_once() -> None:
    learning, first = _learning()
    second: Any = FakeLine()
    with learning.actor_comes(["asyncio"]):
        for zygote in (first, second, first):
            learning.before_fork(zygote)
    assert first.sent == second.sent == [Import([("asyncio", "")])]


def test_what_actors_need_is_left_to_their_workers_where_nothing_is_learned() -> None:
    node: Any = FakeNode(Config(learn_imports=False))
    zygote: Any = FakeLine()
    learning = Learning(node)
    with learning.actor_comes(["asyncio"]):
        learning.before_fork(zygote)
    assert zygote.sent == []


def test_what_came_of_it_is_shown() -> None:
    learning, _ = _learning()
    learning.answered(Learned(["b", "a"], 1.5, 2048, ""))
    learning.answered(Learned(["c"], 0.0, 0, "its import starts threads"))
    assert learning.figures() == {
        "packages": ["a", "b"],
        "seconds": 1.5,
        "bytes": 2048 * 1024,
        "refused": {"c": "its import starts threads"},
        "why_not": "",
        "due": [],
    }
    learning.zygote_gone()
    assert learning.figures()["packages"] == [] and learning.why_not


def test_what_a_driver_announces_is_loaded_at_once() -> None:
    learning, zygote = _learning()
    learning.driver_came(["lib", "dep"], ["/site-packages"])
    learning.announced(Imported([("/site-packages", "lib"), ("/site-packages", "lib.part")]))
    assert zygote.sent == [Learn(["/site-packages"], ["lib", "lib.part"], ["dep", "lib"], now=True)]
    learning.answered(Learned(["lib"], 1.0, 1024, ""))
    assert learning.figures()["packages"] == ["lib"]
    for name in (b"a", b"b"):  # it is there: nothing is left to learn
        learning.imported(_worker(name), Imported([("/site-packages", "lib.other")]))
    learning.worker_starts()
    assert len(zygote.sent) == 1


def test_nothing_announced_asks_nothing_of_the_zygote() -> None:
    learning, zygote = _learning()
    learning.announced(Imported([]))
    assert zygote.sent == []


def test_a_zygote_that_dies_of_what_was_announced_is_not_asked_again() -> None:
    learning, zygote = _learning()
    learning.announced(Imported([("/site-packages", "lib")]))
    learning.zygote_gone()
    assert learning.why_not == "a zygote that loaded packages died"
    learning.announced(Imported([("/site-packages", "lib")]))
    assert len(zygote.sent) == 1


def test_a_refusal_is_told_and_the_zygote_that_takes_its_place_learns_no_more() -> None:
    learning, _ = _learning()
    learning.announced(Imported([("/site-packages", "lib")]))
    learning.answered(Learned(["lib"], 0.0, 0, "its import starts threads"))
    learning.zygote_gone()
    assert learning.figures()["refused"] == {"lib": "its import starts threads"}
