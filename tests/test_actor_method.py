"""Methods of actors: options, the row that a call is made of, and what is refused before anything is sent."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

import sundog
from sundog import api
from sundog.actor import _members
from sundog.actor_method import ActorMethod, Core, check_group, method, method_of
from sundog.handle_data import HandleData
from sundog.option_checks import MisuseError
from sundog.options import MethodOptions
from sundog.wire import lanes as wire

ACTOR = b"a" * 16


class Counter:
    """A user's class."""

    def add(self, amount: int) -> int:
        """Adds."""
        return amount

    @sundog.method(num_returns=2, concurrency_group="io")
    def pair(self) -> tuple[int, int]:
        return 1, 2

    def each(self) -> Iterator[int]:
        yield 1


class FakeLane:
    """A lane whose terms are set by the first method that is bound to it."""

    max_pending = 0
    out_of_order = by_group = concurrent = False


class FakeActors:
    def __init__(self) -> None:
        self.lane = FakeLane()
        self.linked: list[tuple[bytes, str]] = []

    def link(self, actor_id: bytes, class_name: str) -> FakeLane:
        self.linked.append((actor_id, class_name))
        return self.lane


class FakeOwner:
    def __init__(self) -> None:
        self.actors = FakeActors()


class FakeEngine:
    def __init__(self) -> None:
        self.owner = FakeOwner()


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    made = FakeEngine()
    monkeypatch.setattr(api, "engine_of_session", lambda: made)
    return made


def core(**more: Any) -> Core:
    return Core(ACTOR, HandleData(_members(Counter), **more), None)


def bound(name: str, given: dict[str, Any] | None = None, **more: Any) -> Any:
    """The row of a method's calls."""
    made = core(**more)
    found: Any = method_of(made, name, made.data.members.methods[name]).options(**(given or {}))
    found._bind()
    return found._fn


def test_options_of_a_method_are_written_at_its_function() -> None:
    plain: Any = Counter.add
    assert method(plain) is plain
    assert core().data.members.methods["pair"].num_returns == 2
    with pytest.raises(MisuseError, match="@method needs options"):
        method(3)  # type: ignore[call-overload]


def test_a_call_without_remote_says_how_to_call() -> None:
    with pytest.raises(TypeError, match=r"write actor\.add\.remote\(\.\.\.\)"):
        ActorMethod(core(), "add", MethodOptions())(1)


def test_a_method_shows_the_name_the_words_and_the_arguments_of_its_function() -> None:
    made = core()
    made.cls = Counter
    shown: ActorMethod[..., object] = ActorMethod(made, "add", MethodOptions())
    assert (shown.__name__, shown.__doc__, repr(shown)) == ("add", "Adds.", "ActorMethod(Counter.add)")
    assert list(shown.__signature__.parameters) == ["amount"]


def test_a_method_survives_pickling_with_its_options() -> None:
    again = pickle.loads(pickle.dumps(ActorMethod(core(), "add", MethodOptions(max_task_retries=3))))
    assert again._core.actor_id == ACTOR and again._name == "add" and again._options.max_task_retries == 3


def test_a_plain_call_has_one_result_and_nothing_extra(engine: FakeEngine) -> None:
    fn = bound("add", max_task_retries=2, max_pending_calls=7, out_of_order=True)
    assert (fn.one, fn.returns, fn.max_retries, fn.extra) == (True, 1, 2, None)
    assert fn.name == "Counter.add" and engine.owner.actors.linked == [(ACTOR, "Counter")]
    lane = engine.owner.actors.lane
    assert (lane.max_pending, lane.out_of_order, lane.by_group) == (7, True, False)


@pytest.mark.usefixtures("engine")
def test_options_travel_with_a_call_if_they_are_not_the_usual_ones() -> None:
    fn = bound("pair", {"name": "both", "max_task_retries": 0}, groups=("io",), max_task_retries=5)
    assert not fn.one and fn.max_retries == 0
    assert fn.extra == {wire.EXTRA_RETURNS: 2, wire.EXTRA_GROUP: "io", wire.EXTRA_NAME: "both"}
    assert bound("add", {"retry_exceptions": True}).extra == {wire.EXTRA_RETRY: True}
    packed = bound("add", {"retry_exceptions": [KeyError]}).extra[wire.EXTRA_RETRY]
    assert pickle.loads(packed) == (KeyError,)
    assert bound("add", task_events=False).extra == {wire.EXTRA_HIDDEN: True}
    assert bound("add", {"enable_task_events": True}, task_events=False).extra is None


@pytest.mark.usefixtures("engine")
def test_a_generator_streams_within_the_limit_of_its_actor() -> None:
    fn = bound("each", unread_max=4)
    assert (fn.returns, fn.counted, fn.backpressure) == ("streaming", True, 4)
    assert fn.extra == {wire.EXTRA_RETURNS: "streaming"}
    assert bound("each", {"_generator_backpressure_num_objects": 2}, unread_max=4).backpressure == 2


@pytest.mark.usefixtures("engine")
def test_a_group_that_the_class_does_not_have_is_refused() -> None:
    with pytest.raises(MisuseError, match=r"has no concurrency group 'io'; it has 'cpu'"):
        bound("pair", groups=("cpu",))
    check_group("Counter", "pair", "io", ("io",))
