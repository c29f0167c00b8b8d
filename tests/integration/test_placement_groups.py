"""Placement groups with tasks and actors in them: strategies, bundles, children, removal, life time."""

# mypy: disable-error-code="untyped-decorator"
# `ray` is whichever module the fixture gives, so its decorator has no type.
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import sundog
from sundog.engines import sessions
from sundog.util.placement_group import (
    PlacementGroup,
    get_current_placement_group,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from sundog.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from tests.integration import drivers
from tests.integration.gates import Gate
from tests.integration.test_resources import await_free

Start = Callable[..., ModuleType]


@pytest.fixture
def gate(tmp_path: Path) -> Any:
    found = Gate(tmp_path)
    yield found
    found.open()


@pytest.mark.parametrize("strategy", ["PACK", "SPREAD", "STRICT_PACK"])
def test_every_strategy_that_one_node_can_meet_is_placed(ray: ModuleType, strategy: str) -> None:
    group = placement_group([{"CPU": 1}, {"CPU": 1}], strategy=strategy)
    assert ray.get(group.ready(), timeout=120) == group
    row = placement_group_table(group)
    here = ray.get_runtime_context().get_node_id()
    assert row["bundles_to_node_id"] == {0: here, 1: here}
    remove_placement_group(group)
    assert placement_group_table(group)["state"] == "REMOVED"


def test_strict_spread_waits_for_a_second_node(ray: ModuleType) -> None:
    group = placement_group([{"CPU": 1}, {"CPU": 1}], strategy="STRICT_SPREAD")
    assert not group.wait(0.2)
    assert placement_group_table(group)["state"] == "PENDING"
    # It takes nothing while it waits.
    await_free(ray, CPU=4)
    remove_placement_group(group)


def test_a_group_holds_its_bundles_whether_used_or_not(ray: ModuleType) -> None:
    group = placement_group([{"CPU": 2}, {"CPU": 1}])
    assert group.wait(120)
    await_free(ray, CPU=1)
    remove_placement_group(group)
    await_free(ray, CPU=4)


def test_tasks_outside_cannot_use_what_a_group_holds(ray: ModuleType) -> None:
    group = placement_group([{"CPU": 4}])
    assert group.wait(120)

    @ray.remote
    def one() -> int:
        return 1

    outside = one.remote()
    assert ray.wait([outside], timeout=0.2)[0] == []
    inside = one.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group)).remote()
    assert ray.get(inside, timeout=120) == 1
    remove_placement_group(group)
    assert ray.get(outside, timeout=120) == 1


def test_a_bundle_bounds_what_runs_in_it(ray: ModuleType, gate: Gate) -> None:
    group = placement_group([{"CPU": 1}, {"CPU": 2}])

    @ray.remote
    def hold(name: str) -> int:
        gate.enter(name)
        return 1

    def at(index: int) -> Any:
        return PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index)

    refs = [hold.options(scheduling_strategy=at(0)).remote("a") for _ in range(3)]
    refs += [hold.options(scheduling_strategy=at(1)).remote("b") for _ in range(3)]
    drivers.await_true(lambda: gate.inside("a") + gate.inside("b") == 3, "full bundles")
    assert ray.wait(refs, timeout=0.2)[0] == []
    assert (gate.inside("a"), gate.inside("b")) == (1, 2)
    gate.open()
    assert sum(ray.get(refs, timeout=120)) == 6
    remove_placement_group(group)


def test_a_bundle_index_out_of_range_is_refused(ray: ModuleType) -> None:
    group = placement_group([{"CPU": 1}])

    @ray.remote
    def one() -> int:
        return 1

    strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=5)
    with pytest.raises(ValueError, match="bundle"):
        one.options(scheduling_strategy=strategy).remote()
    remove_placement_group(group)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_older_options_name_a_group_as_well_as_a_strategy_does(ray: ModuleType) -> None:
    group = placement_group([{"CPU": 1}, {"CPU": 2}])

    @ray.remote(num_cpus=0)
    def where() -> Any:
        return get_current_placement_group()

    @ray.remote(num_cpus=0)
    def child(**options: Any) -> Any:
        return ray.get(where.options(**options).remote())

    @ray.remote(num_cpus=0)
    class Actor:
        def group(self) -> Any:
            return get_current_placement_group()

    assert ray.get(where.options(placement_group=group).remote(), timeout=120) == group
    actor = Actor.options(placement_group=group, placement_group_bundle_index=1).remote()
    assert ray.get(actor.group.remote(), timeout=120) == group
    with pytest.raises(ValueError, match="bundle index 2"):
        where.options(placement_group=group, placement_group_bundle_index=2).remote()
    with pytest.raises(ValueError, match="fits in no bundle"):
        where.options(placement_group=group, placement_group_bundle_index=0, num_cpus=2).remote()
    with pytest.raises(ValueError, match="has no placement group"):
        where.options(placement_group_bundle_index=0).remote()
    # What is submitted from inside: outside again unless it is captured, by the parent or by its own option.
    plain = child.options(placement_group=group)
    capturing = plain.options(placement_group_capture_child_tasks=True)
    own = {"placement_group_capture_child_tasks": True}
    assert ray.get(plain.remote(), timeout=120) is None
    assert ray.get(plain.remote(**own), timeout=120) == group
    assert ray.get(capturing.remote(), timeout=120) == group
    assert ray.get(capturing.remote(placement_group=None), timeout=120) is None
    remove_placement_group(group)


def test_the_empty_group_is_no_group(ray: ModuleType) -> None:
    @ray.remote
    def where() -> Any:
        return get_current_placement_group()

    strategy = PlacementGroupSchedulingStrategy(PlacementGroup.empty())
    assert ray.get(where.options(scheduling_strategy=strategy).remote(), timeout=120) is None


def test_a_captured_child_that_names_another_group_captures_too(ray: ModuleType) -> None:
    group, other = placement_group([{"CPU": 1}]), placement_group([{"CPU": 1}])

    @ray.remote(num_cpus=0)
    def where() -> Any:
        return get_current_placement_group()

    @ray.remote(num_cpus=0)
    def grandchild() -> Any:
        return ray.get(where.remote())

    @ray.remote(num_cpus=0)
    def child() -> Any:
        strategy = PlacementGroupSchedulingStrategy(other)
        return ray.get(grandchild.options(scheduling_strategy=strategy).remote())

    strategy = PlacementGroupSchedulingStrategy(group, placement_group_capture_child_tasks=True)
    assert ray.get(child.options(scheduling_strategy=strategy).remote(), timeout=120) == other
    remove_placement_group(group)
    remove_placement_group(other)


def test_actors_live_in_bundles(ray: ModuleType) -> None:
    group = placement_group([{"CPU": 1}, {"CPU": 1}])

    @ray.remote(num_cpus=1)
    class Actor:
        def group(self) -> Any:
            return get_current_placement_group()

    strategy = PlacementGroupSchedulingStrategy(group)
    actors = [Actor.options(scheduling_strategy=strategy).remote() for _ in range(2)]
    assert ray.get([actor.group.remote() for actor in actors], timeout=120) == [group, group]
    third = Actor.options(scheduling_strategy=strategy).remote()
    waiting = third.group.remote()
    assert ray.wait([waiting], timeout=0.2)[0] == []
    ray.kill(actors[0])
    assert ray.get(waiting, timeout=120) == group
    remove_placement_group(group)


def test_children_of_captured_tasks_and_actors_stay_inside(ray: ModuleType) -> None:
    group = placement_group([{"CPU": 3}])

    @ray.remote
    def where() -> Any:
        return get_current_placement_group()

    @ray.remote(num_cpus=1)
    class Actor:
        def child(self) -> Any:
            return ray.get(where.remote())

        def outside(self) -> Any:
            return ray.get(where.options(scheduling_strategy="DEFAULT").remote())

    strategy = PlacementGroupSchedulingStrategy(group, placement_group_capture_child_tasks=True)
    actor = Actor.options(scheduling_strategy=strategy).remote()
    assert ray.get(actor.child.remote(), timeout=120) == group
    assert ray.get(actor.outside.remote(), timeout=120) is None
    remove_placement_group(group)


def test_removal_ends_running_tasks_with_a_typed_error(ray: ModuleType, gate: Gate) -> None:
    group = placement_group([{"CPU": 1}])

    @ray.remote
    def hold() -> None:
        gate.enter()

    strategy = PlacementGroupSchedulingStrategy(group)
    running = hold.options(scheduling_strategy=strategy).remote()
    waiting = hold.options(scheduling_strategy=strategy).remote()
    drivers.await_true(gate.inside, "the task's start")
    remove_placement_group(group)
    for ref in (running, waiting):
        with pytest.raises(ray.exceptions.TaskPlacementGroupRemoved):
            ray.get(ref, timeout=120)
    with pytest.raises(ray.exceptions.TaskPlacementGroupRemoved):
        ray.get(hold.options(scheduling_strategy=strategy).remote(), timeout=120)
    await_free(ray, CPU=4)


def test_removal_ends_actors_with_a_typed_error(ray: ModuleType) -> None:
    group = placement_group([{"CPU": 1}])

    @ray.remote(num_cpus=1)
    class Actor:
        def hello(self) -> int:
            return 1

    strategy = PlacementGroupSchedulingStrategy(group)
    alive = Actor.options(scheduling_strategy=strategy).remote()
    assert ray.get(alive.hello.remote(), timeout=120) == 1
    waiting = Actor.options(scheduling_strategy=strategy).remote()
    ref = waiting.hello.remote()
    remove_placement_group(group)
    with pytest.raises(ray.exceptions.ActorDiedError, match="placement group"):
        while True:  # nobody waits for the removal: the actor may answer for a moment
            ray.get(alive.hello.remote(), timeout=120)
    with pytest.raises(ray.exceptions.ActorUnschedulableError, match="placement group"):
        ray.get(ref, timeout=120)
    late = Actor.options(scheduling_strategy=strategy).remote()
    with pytest.raises(ray.exceptions.ActorUnschedulableError, match="placement group"):
        ray.get(late.hello.remote(), timeout=120)


def test_a_request_that_no_bundle_can_hold_is_refused(ray: ModuleType) -> None:
    group = placement_group([{"CPU": 1}, {"CPU": 2, "GPU": 1}])

    @ray.remote(num_cpus=2)
    def two() -> int:
        return 1

    @ray.remote(num_cpus=3)
    class Actor:
        pass

    first = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0)
    with pytest.raises(ValueError, match="bundle"):
        two.options(scheduling_strategy=first).remote()
    with pytest.raises(ValueError, match="bundle"):
        Actor.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group)).remote()
    remove_placement_group(group)


def test_custom_resources_and_gpus_are_bundled_too(ray_session: Start) -> None:
    ray = ray_session(num_cpus=2, num_gpus=2, resources={"slot": 2})
    group = placement_group([{"CPU": 1, "GPU": 1, "slot": 1}])
    assert group.wait(120)
    free = ray.available_resources()
    assert (free["CPU"], free["GPU"], free["slot"]) == (1.0, 1.0, 1.0)

    @ray.remote(num_cpus=1, num_gpus=1, resources={"slot": 1})
    def which() -> Any:
        return ray.get_gpu_ids()

    strategy = PlacementGroupSchedulingStrategy(group)
    assert len(ray.get(which.options(scheduling_strategy=strategy).remote(), timeout=120)) == 1
    remove_placement_group(group)


def test_groups_wait_their_turn(ray: ModuleType) -> None:
    first = placement_group([{"CPU": 3}])
    assert first.wait(120)
    second = placement_group([{"CPU": 3}])
    ready = second.ready()
    assert ray.wait([ready], timeout=0.2)[0] == []
    remove_placement_group(first)
    assert ray.get(ready, timeout=120) == second
    remove_placement_group(second)


def test_groups_can_be_made_and_removed_by_the_hundred(ray: ModuleType) -> None:
    for _ in range(100):
        group = placement_group([{"CPU": 1}, {"CPU": 1}])
        assert group.wait(120)
        remove_placement_group(group)
    await_free(ray, CPU=4)


def test_a_worker_can_make_a_group_and_pass_it_on(ray: ModuleType) -> None:
    @ray.remote(num_cpus=1)
    def make() -> Any:
        group = placement_group([{"CPU": 1}], lifetime="detached")
        ray.get(group.ready())
        return group

    @ray.remote
    def where() -> Any:
        return get_current_placement_group()

    group = ray.get(make.remote(), timeout=120)
    strategy = PlacementGroupSchedulingStrategy(group)
    assert ray.get(where.options(scheduling_strategy=strategy).remote(), timeout=120) == group
    remove_placement_group(group)


PROGRAM = """
    from sundog.util.placement_group import placement_group
    ray.init(address="auto", namespace="shared")
    group = placement_group([{{"CPU": 1}}], name="shelf", lifetime={lifetime!r})
    assert group.wait(120)
    print("placed", flush=True)
    """


def test_a_group_ends_with_its_driver_unless_it_is_detached(leak_check: Path) -> None:
    info = sessions.start_head(num_cpus=2)
    try:
        drivers.run(PROGRAM.format(lifetime=None))
        with sundog.init(address="auto", namespace="shared"):
            await_free(sundog, CPU=2)
            with pytest.raises(ValueError):
                get_placement_group("shelf")
        drivers.run(PROGRAM.format(lifetime="detached"))
        with sundog.init(address="auto", namespace="shared"):
            await_free(sundog, CPU=1)
            group = get_placement_group("shelf")

            @sundog.remote
            def where() -> Any:
                return get_current_placement_group()

            strategy = PlacementGroupSchedulingStrategy(group)
            assert sundog.get(where.options(scheduling_strategy=strategy).remote(), timeout=120) == group
            remove_placement_group(group)
            await_free(sundog, CPU=2)
    finally:
        sessions.stop_session(info)


def test_a_group_is_not_ready_once_it_was_removed(ray: ModuleType) -> None:
    group = placement_group([{"CPU": 100}])
    ready = group.ready()
    remove_placement_group(group)
    with pytest.raises(ray.exceptions.RayError) as caught:
        ray.get(ready, timeout=120)
    assert not isinstance(caught.value, TimeoutError)


@pytest.mark.parametrize("strategy", ["SPREAD", "DEFAULT"])
def test_a_group_in_options_beside_a_strategy_of_the_decorator_is_refused(
    ray: ModuleType, strategy: str
) -> None:
    group = ray.util.placement_group([{"CPU": 1}])

    @ray.remote(scheduling_strategy=strategy)
    def task() -> None: ...

    @ray.remote(scheduling_strategy=strategy)
    class Actor: ...

    with pytest.warns(DeprecationWarning):
        for made in (task.options(placement_group=group), Actor.options(placement_group=group)):
            with pytest.raises(ValueError, match="both say where to run"):
                made.remote()


def test_a_group_whose_name_is_no_string_is_refused() -> None:
    with pytest.raises(TypeError, match="must be a string, got 3 of type int"):
        placement_group([{"CPU": 1}], name=3)  # type: ignore[arg-type]
