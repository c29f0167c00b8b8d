"""Options into what a task or actor asks of the node."""

from __future__ import annotations

from typing import Any

import pytest

from sundog.engines.lease_requests import lease_of, strategy_of
from sundog.options import parse_actor_options, parse_task_options
from sundog.util.placement_group import PlacementGroup
from sundog.util.scheduling_strategies import (
    DoesNotExist,
    In,
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)

GROUP = bytes(range(16))


def task(**given: Any) -> Any:
    return lease_of(parse_task_options(given), "env")


def in_group(group: PlacementGroup, index: int = -1) -> PlacementGroupSchedulingStrategy:
    return PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index)


@pytest.fixture
def group() -> PlacementGroup:
    from sundog.public_ids import PlacementGroupID

    made = PlacementGroup(PlacementGroupID(GROUP), [{"CPU": 1.0}, {"CPU": 4.0}])
    return made


def test_strategies_are_told_in_the_words_of_the_scheduler() -> None:
    node = bytes(range(16))

    assert strategy_of(None) == strategy_of("DEFAULT") == ("default",)
    assert strategy_of("SPREAD") == ("spread",)
    for soft, options, when_full in (
        (True, {}, "wait"),
        (True, {"_spill_on_unavailable": True}, "spill"),
        (False, {"_fail_on_unavailable": True}, "fail"),
    ):
        strategy = NodeAffinitySchedulingStrategy(node.hex(), soft=soft, **options)
        assert strategy_of(strategy) == ("node", node, soft, when_full)
    assert strategy_of(NodeLabelSchedulingStrategy({"a": In("x", "y")}, soft={"b": DoesNotExist()})) == (
        "labels",
        (("a", "in", ("x", "y")),),
        (("b", "absent", ()),),
    )
    with pytest.raises(ValueError, match="not a scheduling strategy"):
        strategy_of(3)


def test_a_task_asks_for_one_cpu_and_an_actor_for_one_to_be_placed_with() -> None:
    spec, setup = task()
    assert spec.resources == (("CPU", 1.0),) and setup["resources"] == {"CPU": 1.0} and not spec.permanent

    spec, _ = lease_of(parse_actor_options({}), "env")
    assert (spec.resources, spec.placement, spec.permanent) == ((), (("CPU", 1.0),), True)


def test_equal_options_make_equal_requests_whatever_the_order_of_their_resources() -> None:
    assert task(resources={"a": 1, "b": 2})[0] == task(resources={"b": 2, "a": 1})[0]


def test_labels_and_fallbacks_are_sorted_pairs() -> None:
    spec, _ = task(label_selector={"b": "2", "a": "1"}, fallback_strategy=[{"label_selector": {"c": "3"}}])

    assert spec.label_selector == (("a", "1"), ("b", "2"))
    assert spec.fallbacks == ((("c", "3"),),)


def test_a_cap_on_memory_needs_the_memory() -> None:
    assert task(memory=100, enforce_memory=True)[0].memory_cap == 100
    assert task(memory=100)[0].memory_cap == 0
    with pytest.raises(ValueError, match="needs memory="):
        task(enforce_memory=True)


def test_a_bundle_is_named_and_one_that_is_not_there_or_too_small_is_refused(group: PlacementGroup) -> None:
    spec, setup = task(scheduling_strategy=in_group(group, 1), num_cpus=2)
    assert spec.strategy == ("pg", GROUP, 1) and setup["pg_id"] == GROUP

    with pytest.raises(ValueError, match="bundle index 7"):
        task(scheduling_strategy=in_group(group, 7))
    with pytest.raises(ValueError, match="fits in no bundle"):
        task(scheduling_strategy=in_group(group, 0), num_cpus=2)


def test_a_bundle_without_a_group_is_refused() -> None:
    with pytest.warns(DeprecationWarning), pytest.raises(ValueError, match="has no placement group"):
        task(placement_group_bundle_index=2)
