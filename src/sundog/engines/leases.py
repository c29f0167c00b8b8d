"""Options into demands: what a task or actor asks of the node, and what its worker is set up with."""

from __future__ import annotations

from typing import Any

from sundog.options import ActorOptions, TaskOptions
from sundog.owner import context
from sundog.state.lease_spec import LeaseSpec


def strategy_of(given: Any, *, is_task: bool = True) -> tuple[object, ...]:
    """The scheduling strategy in the scheduler's words.

    Raises:
        ValueError: the strategy is of no known kind.
    """
    facts = context.facts
    if given is None or given == "DEFAULT":
        if given is None and facts.placement_group is not None and facts.capture_child_tasks:
            return ("pg", facts.placement_group, -1)
        return ("default",)
    if given == "SPREAD":
        return ("spread",)
    kind = type(given).__name__
    if kind == "NodeAffinitySchedulingStrategy":
        node_id = given.node_id
        return (
            "node",
            bytes.fromhex(node_id) if isinstance(node_id, str) else bytes(node_id),
            bool(given.soft),
        )
    if kind == "PlacementGroupSchedulingStrategy":
        group = given.placement_group
        if group is None:
            return ("default",)
        return ("pg", group.id.binary(), int(given.placement_group_bundle_index))
    if kind == "NodeLabelSchedulingStrategy":
        return ("labels", _conditions(given.hard), _conditions(given.soft))
    raise ValueError(f"{given!r} is no scheduling strategy: use 'DEFAULT', 'SPREAD' or a strategy object.")


def _conditions(labels: Any) -> tuple[Any, ...]:
    out = []
    for key, condition in (labels or {}).items():
        kind = type(condition).__name__
        values = tuple(getattr(condition, "values", ()) or ())
        out.append(
            (key, {"In": "in", "NotIn": "not_in", "Exists": "exists", "DoesNotExist": "absent"}[kind], values)
        )
    return tuple(out)


def _memory_cap(options: TaskOptions | ActorOptions) -> float:
    """The bytes beyond which a task or actor is ended; 0 for none.

    Raises:
        ValueError: a cap is asked for and none is given.
    """
    if not options.enforce_memory:
        return 0.0
    if not options.memory:
        raise ValueError(
            "enforce_memory=True needs memory=: the bytes that the task or actor may use at most."
        )
    return options.memory


def _check_fits(group: Any, index: object, demand: dict[str, float]) -> None:
    """Refuse a bundle that the group does not have, or a demand that none of its bundles can ever meet.

    Raises:
        ValueError: either of these.
    """
    bundles: list[dict[str, float]] = group.bundle_specs
    assert isinstance(index, int)
    if not -1 <= index < len(bundles):
        raise ValueError(
            f"Placement group {group.id.hex()} has no bundle {index}: its bundles are 0 to {len(bundles) - 1}, and -1 "
            "means any of them."
        )
    wanted = bundles if index == -1 else [bundles[index]]
    if bundles and not any(all(b.get(k, 0.0) >= v for k, v in demand.items()) for b in wanted):
        raise ValueError(
            f"{demand} fits in no bundle of placement group {group.id.hex()}, which are {wanted}: it could never run. "
            "Ask for less, or make the group with a larger bundle."
        )


def capture_of(given: Any) -> bool:
    """Whether tasks submitted from inside are placed in the same placement group."""
    capture = getattr(given, "placement_group_capture_child_tasks", None)
    if capture is not None:
        return bool(capture)
    return given is None and context.facts.capture_child_tasks


def lease_of(options: TaskOptions | ActorOptions, env_key: str) -> tuple[LeaseSpec, dict[str, Any]]:
    """The lease that a task or actor needs, and the setup of its worker."""
    demand = options.demand()
    is_actor = isinstance(options, ActorOptions)
    strategy = strategy_of(options.scheduling_strategy, is_task=not is_actor)
    placement: tuple[tuple[str, float], ...] = ()
    if isinstance(options, ActorOptions):
        wanted = tuple(sorted(options.placement_demand().items()))
        if wanted != tuple(sorted(demand.items())):
            placement = wanted
    spec = LeaseSpec(
        resources=tuple(sorted(demand.items())),
        env_key=env_key,
        strategy=strategy,
        label_selector=tuple(sorted((options.label_selector or {}).items())),
        placement=placement,
        permanent=is_actor,
        memory_cap=_memory_cap(options),
    )
    setup: dict[str, Any] = {"resources": demand}
    group = getattr(options.scheduling_strategy, "placement_group", None)
    if group is not None:
        _check_fits(group, strategy[2], dict(placement or spec.resources))
    if strategy[0] == "pg":
        setup["pg_id"] = strategy[1]
        setup["capture"] = capture_of(options.scheduling_strategy)
    return spec, setup
