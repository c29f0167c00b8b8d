"""Placement groups: asked for, placed, used, found, described and removed."""

# mypy: disable-error-code="untyped-decorator"
# `ray` is whichever module the fixture gives, so its decorator has no type.
from __future__ import annotations

import pickle
import sys
from types import ModuleType
from typing import Any

import pytest

from sundog import util
from sundog.public_ids import PlacementGroupID
from sundog.util.placement_group import (
    PlacementGroup,
    check_placement_group_index,
    get_current_placement_group,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from sundog.util.scheduling_strategies import PlacementGroupSchedulingStrategy


def test_the_function_stays_reachable_beside_its_module() -> None:
    assert util.placement_group is placement_group
    # What the import system does whenever the module is loaded, under an alias too.
    util.placement_group = sys.modules["sundog.util.placement_group"]  # type: ignore[assignment]
    assert util.placement_group is placement_group


def test_ready_resolves_to_the_group(ray: ModuleType) -> None:
    group = placement_group([{"CPU": 1}, {"CPU": 1}], strategy="PACK")
    assert ray.get(group.ready(), timeout=120) == group
    assert group.wait(120)
    assert group.bundle_specs == [{"CPU": 1.0}, {"CPU": 1.0}]
    assert group.bundle_count == 2
    assert group.id.hex() == group.id.binary().hex()
    remove_placement_group(group)


def test_a_group_that_does_not_fit_is_not_ready(ray: ModuleType) -> None:
    group = placement_group([{"CPU": 1000}])
    assert not group.wait(0.1)
    done, waiting = ray.wait([group.ready()], timeout=0.1)
    assert (len(done), len(waiting)) == (0, 1)
    remove_placement_group(group)


def test_a_removed_group_gives_its_resources_back(ray: ModuleType) -> None:
    group = placement_group([{"CPU": 4}])
    assert group.wait(120)
    second = placement_group([{"CPU": 4}])
    assert not second.wait(0.1)
    remove_placement_group(group)
    assert second.wait(120)
    remove_placement_group(second)


def test_a_task_runs_in_the_group_and_knows_it(ray: ModuleType) -> None:
    group = placement_group([{"CPU": 1}])

    @ray.remote(num_cpus=1)
    def current() -> Any:
        return get_current_placement_group()

    strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0)
    assert ray.get(current.options(scheduling_strategy=strategy).remote(), timeout=120) == group
    assert get_current_placement_group() is None
    assert ray.get(current.remote()) is None
    remove_placement_group(group)


def test_child_tasks_can_be_captured(ray: ModuleType) -> None:
    group = placement_group([{"CPU": 2}])

    @ray.remote(num_cpus=1)
    def child() -> Any:
        return get_current_placement_group()

    @ray.remote(num_cpus=1)
    def parent() -> Any:
        return ray.get(child.remote())

    for capture, expected in ((True, group), (False, None)):
        strategy = PlacementGroupSchedulingStrategy(group, placement_group_capture_child_tasks=capture)
        assert ray.get(parent.options(scheduling_strategy=strategy).remote(), timeout=120) == expected
    remove_placement_group(group)


def test_a_named_group_can_be_found(ray: ModuleType) -> None:
    group = placement_group([{"CPU": 1}], name="shelf")
    assert group.wait(120)
    found = get_placement_group("shelf")
    assert found == group
    assert found.bundle_specs == [{"CPU": 1.0}]
    remove_placement_group(group)
    with pytest.raises(ValueError, match="no_such_group"):
        get_placement_group("no_such_group")
    with pytest.raises(ValueError):
        get_placement_group("")


def test_the_table_describes_groups(ray: ModuleType) -> None:
    group = placement_group([{"CPU": 1}], strategy="SPREAD", name="described")
    assert group.wait(120)
    row = placement_group_table(group)
    assert row["placement_group_id"] == group.id.hex()
    assert (row["name"], row["strategy"], row["state"]) == ("described", "SPREAD", "CREATED")
    assert row["bundles"] == {0: {"CPU": 1.0}}
    assert group.id.hex() in placement_group_table()
    remove_placement_group(group)


def test_bundle_indices_are_checked(ray: ModuleType) -> None:
    group = PlacementGroup(PlacementGroupID(b"\x01" * 16), [{"CPU": 1.0}, {"CPU": 1.0}])
    for good in (-1, 0, 1):
        check_placement_group_index(group, good)
    for wrong in (-2, 2):
        with pytest.raises(ValueError, match="no bundle"):
            check_placement_group_index(group, wrong)
    with pytest.raises(ValueError):
        check_placement_group_index(PlacementGroup.empty(), 0)


def test_the_empty_group_is_always_ready(ray: ModuleType) -> None:
    empty = PlacementGroup.empty()
    assert empty.is_empty and empty.bundle_count == 0
    assert ray.get(empty.ready()) == empty
    assert empty.wait(0)


def test_handles_and_ids_travel() -> None:
    group = PlacementGroup(PlacementGroupID(b"\x02" * 16), [{"CPU": 1.0}])
    copy = pickle.loads(pickle.dumps(group))
    assert copy == group and hash(copy) == hash(group) and copy.bundle_specs == group.bundle_specs
    assert copy.id.binary() == b"\x02" * 16
    assert PlacementGroupID.from_hex(copy.id.hex()) == copy.id
    assert PlacementGroupID.nil().is_nil() and not copy.id.is_nil()


@pytest.mark.parametrize(
    "arguments",
    [
        {"bundles": {"CPU": 1}},
        {"bundles": []},
        {"bundles": [{}]},
        {"bundles": [{"CPU": 0}]},
        {"bundles": [{"CPU": -1}]},
        {"bundles": [{"CPU": "1"}]},
        {"bundles": [{1: 1}]},
        {"bundles": ["CPU"]},
        {"strategy": "TIGHT"},
        {"lifetime": "for ever"},
        {"_soft_target_node_id": "ab"},
        {"_soft_target_node_id": "00", "strategy": "STRICT_PACK"},
        {"bundle_label_selector": [{"a": "b"}, {"a": "b"}]},
        {"bundle_label_selector": [{"a": 1}]},
        {"bundle_label_selector": {"a": "b"}},
        {"strategy": "PACK", "topology_strategy": {"ray.io/node-id": "PACK"}},
        {"topology_strategy": {"ray.io/node-id": "TIGHT"}},
        {"topology_strategy": "PACK"},
    ],
)
def test_wrong_arguments_are_refused(ray: ModuleType, arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        placement_group(**{"bundles": [{"CPU": 1}], **arguments})
    assert not [row for row in placement_group_table().values() if row["state"] == "CREATED"]


def test_a_name_that_is_taken_and_labels_that_cannot_be_are_refused(ray: ModuleType) -> None:
    placement_group([{"CPU": 1}], name="taken")
    for kind in (ray.exceptions.RaySystemError, ValueError):
        with pytest.raises(kind, match="taken"):
            placement_group([{"CPU": 1}], name="taken")
    with pytest.raises(ValueError, match="not allowed"):
        placement_group([{"CPU": 1}], bundle_label_selector=[{"-a": "b"}])
