"""Metrics of user code: which tags they have in a replica, and which the user may not give."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from sundog.serve.context import RequestContext, request_context
from sundog.serve.metrics import Counter, Gauge, Histogram
from tests.serve.fakes import FakeRegistry, enter_replica, replica_context


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> FakeRegistry:
    return FakeRegistry(monkeypatch)


def test_in_a_replica_a_value_says_where_it_comes_from(
    registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter_replica(monkeypatch)
    Counter("sold", tag_keys=("kind",)).inc(2, {"kind": "tea"})
    Gauge("stock").set(7)
    Histogram("price", boundaries=[1, 10], tag_keys=("kind",)).observe(3, {"kind": "tea"})
    assert registry.values("sold") == {("Model", "r1", "shop", "tea"): 2}
    assert registry.values("stock") == {("Model", "r1", "shop"): 7}
    assert registry.values("price") == {("Model", "r1", "shop", "tea"): 3}


def test_outside_of_a_replica_nothing_is_added(registry: FakeRegistry) -> None:
    Counter("sold", tag_keys=("replica",)).inc(1, {"replica": "mine"})
    assert registry.values("sold") == {("mine",): 1}


def test_default_tags_are_kept_beside_those_of_the_replica(
    registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter_replica(monkeypatch)
    made = Counter("sold", tag_keys=("kind",)).set_default_tags({"kind": "tea"})
    made.inc()
    assert registry.values("sold") == {("Model", "r1", "shop", "tea"): 1}


@pytest.mark.parametrize("name", ["deployment", "replica", "application"])
@pytest.mark.usefixtures("registry")
def test_a_tag_that_serve_sets_is_refused_by_its_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    enter_replica(monkeypatch)
    with pytest.raises(ValueError, match=f"Serve itself sets the tag {name!r}"):
        Gauge("stock", tag_keys=(name,))
    with pytest.raises(ValueError, match=f"Serve itself sets the tag {name!r}"):
        Gauge("stock").set_default_tags({name: "mine"})


@pytest.mark.usefixtures("registry")
def test_tag_keys_are_a_tuple() -> None:
    wrong: Any = ["kind"]
    with pytest.raises(TypeError, match="tag_keys as a tuple, not as <class 'list'>"):
        Counter("sold", tag_keys=wrong)


def test_the_tag_route_is_filled_from_the_request_unless_it_is_given(registry: FakeRegistry) -> None:
    made = Counter("sold", tag_keys=("route",))
    before = request_context.set(RequestContext(route="/buy"))
    try:
        made.inc()
        made.inc(tags={"route": "/other"})
    finally:
        request_context.reset(before)
    assert registry.values("sold") == {("/buy",): 1, ("/other",): 1}


@pytest.mark.parametrize("loads_in_replica", [True, False])
def test_a_metric_that_travels_takes_the_tags_of_the_place_where_it_is_loaded(
    monkeypatch: pytest.MonkeyPatch, loads_in_replica: bool
) -> None:
    FakeRegistry(monkeypatch)
    enter_replica(monkeypatch)
    made = [
        Counter("sold", tag_keys=("kind",)).set_default_tags({"kind": "tea"}),
        Histogram("price", boundaries=[1, 10]),
    ]
    sent = pickle.dumps(made)
    there = replica_context(name="r2") if loads_in_replica else None
    monkeypatch.setattr("sundog.serve.context._replica", there)
    registry = FakeRegistry(monkeypatch)  # of the process that loads them
    counter, histogram = pickle.loads(sent)
    counter.inc()
    histogram.observe(3)
    where = ("Model", "r2", "shop") if loads_in_replica else ()
    assert registry.values("sold") == {(*where, "tea"): 1}
    assert registry.values("price") == {where: 3}
