"""Scheduling strategies: what they hold, what they refuse, and that they travel."""

# mypy: disable-error-code="untyped-decorator"
# `ray` is whichever module the fixture gives, so its decorator has no type.
from __future__ import annotations

import pickle
from types import ModuleType

import pytest

from sundog.util.scheduling_strategies import (
    DoesNotExist,
    Exists,
    In,
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
    NotIn,
    PlacementGroupSchedulingStrategy,
)

NODE = "ab" * 16


def test_node_affinity_takes_hex_ids_and_id_objects() -> None:
    strategy = NodeAffinitySchedulingStrategy(bytes.fromhex(NODE), soft=True)
    assert (strategy.node_id, strategy.soft) == (NODE, True)
    assert pickle.loads(pickle.dumps(strategy)) == NodeAffinitySchedulingStrategy(NODE, True)


@pytest.mark.parametrize("wrong", ["", "xyz", "00" * 16])
def test_node_affinity_refuses_what_is_no_node_id(wrong: str) -> None:
    with pytest.raises(ValueError, match="nodes"):
        NodeAffinitySchedulingStrategy(wrong, soft=False)


def test_private_flags_must_agree_with_soft() -> None:
    with pytest.raises(ValueError, match="_spill_on_unavailable"):
        NodeAffinitySchedulingStrategy(NODE, soft=False, _spill_on_unavailable=True)
    with pytest.raises(ValueError, match="_fail_on_unavailable"):
        NodeAffinitySchedulingStrategy(NODE, soft=True, _fail_on_unavailable=True)


def test_label_conditions_are_kept_by_name() -> None:
    strategy = NodeLabelSchedulingStrategy(
        {"region": In("eu", "us"), "gpu": Exists()}, soft={"spot": DoesNotExist(), "zone": NotIn("z")}
    )
    assert strategy.hard == {"region": In("eu", "us"), "gpu": Exists()}
    assert strategy.soft == {"spot": DoesNotExist(), "zone": NotIn("z")}
    assert pickle.loads(pickle.dumps(strategy)) == strategy


def test_wrong_label_conditions_are_refused() -> None:
    for make in (
        lambda: In(),
        lambda: NotIn(),
        lambda: In(1),  # type: ignore[arg-type]
        lambda: NodeLabelSchedulingStrategy({}),
        lambda: NodeLabelSchedulingStrategy({"a": "b"}),  # type: ignore[dict-item]
        lambda: NodeLabelSchedulingStrategy({1: Exists()}),  # type: ignore[dict-item]
        lambda: NodeLabelSchedulingStrategy([Exists()]),  # type: ignore[arg-type]
    ):
        with pytest.raises(ValueError):
            make()


def test_a_placement_group_strategy_holds_its_three_values() -> None:
    strategy = PlacementGroupSchedulingStrategy(None, 2, True)
    assert strategy.placement_group is None
    assert strategy.placement_group_bundle_index == 2
    assert strategy.placement_group_capture_child_tasks is True


def test_a_task_can_be_bound_to_nodes_by_their_labels(ray: ModuleType) -> None:
    @ray.remote
    def run() -> str:
        return "ran"

    strategy = NodeLabelSchedulingStrategy({"no_such_label": DoesNotExist()}, soft={"region": In("eu")})
    assert ray.get(run.options(scheduling_strategy=strategy).remote(), timeout=120) == "ran"


def test_a_task_can_be_bound_to_this_node(ray: ModuleType) -> None:
    here = ray.get_runtime_context().get_node_id()

    @ray.remote
    def where() -> str:
        return str(ray.get_runtime_context().get_node_id())

    strategy = NodeAffinitySchedulingStrategy(here, soft=False)
    assert ray.get(where.options(scheduling_strategy=strategy).remote()) == here
