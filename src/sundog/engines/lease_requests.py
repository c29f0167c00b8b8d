"""Options into demands: what a task or actor asks of the node, and what its worker is set up with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sundog.accelerator_kinds import check_shares
from sundog.option_checks import is_a
from sundog.options import BOTH_PLACES, ActorOptions, TaskOptions
from sundog.owner import context
from sundog.state.lease_spec import LeaseSpec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeGuard

    from sundog.util import scheduling_strategies as strategies
    from sundog.util.placement_group import PlacementGroup
    from sundog.wire.dicts import LeaseSetup

_NO_NODE = ("f" * 56, b"\xff" * 28)


def _is_affinity(given: object) -> TypeGuard[strategies.NodeAffinitySchedulingStrategy]:
    return is_a(given, "NodeAffinitySchedulingStrategy")


def _is_by_labels(given: object) -> TypeGuard[strategies.NodeLabelSchedulingStrategy]:
    return is_a(given, "NodeLabelSchedulingStrategy")


def _is_in_group(given: object) -> TypeGuard[strategies.PlacementGroupSchedulingStrategy]:
    return is_a(given, "PlacementGroupSchedulingStrategy")


def _is_group(given: object) -> TypeGuard[PlacementGroup]:
    return is_a(given, "PlacementGroup")


def strategy_of(given: object) -> tuple[object, ...]:
    """A scheduling strategy that names no placement group, in the scheduler's words.

    Raises:
        ValueError: the strategy is of no known kind.
    """
    if given is None or given == "DEFAULT":
        return ("default",)
    if given == "SPREAD":
        return ("spread",)
    if _is_affinity(given):
        node_id = given.node_id
        if node_id in _NO_NODE:
            raise ValueError(
                "The node_id of NodeAffinitySchedulingStrategy is the nil id, which names no node."
            )
        return (
            "node",
            bytes.fromhex(node_id) if isinstance(node_id, str) else bytes(node_id),
            bool(given.soft),
            "spill" if given._spill_on_unavailable else "fail" if given._fail_on_unavailable else "wait",
        )
    if _is_by_labels(given):
        return ("labels", _conditions(given.hard), _conditions(given.soft))
    raise ValueError(f"{given!r} is not a scheduling strategy: use 'DEFAULT', 'SPREAD' or a strategy object.")


def _group_of(options: TaskOptions | ActorOptions) -> tuple[object, int, bool]:
    """The placement group asked for ("default", None or a group), the bundle, and whether it captures."""
    given = options.scheduling_strategy
    if given is not None and options.placement_group not in ("default", None):
        raise ValueError(BOTH_PLACES)  # one strategy comes from the decorator, the other from .options()
    if given is None:
        group, index = options.placement_group, options.placement_group_bundle_index
        capture = options.placement_group_capture_child_tasks
    elif _is_in_group(given):
        group, index = given.placement_group, given.placement_group_bundle_index
        capture = given.placement_group_capture_child_tasks
    else:
        return None, -1, False
    if capture is None:
        capture = context.facts.capture_child_tasks
    if _is_group(group) and group.is_empty:
        group = None
    return group, int(index), bool(capture)


def _conditions(
    labels: Mapping[str, strategies.In | strategies.NotIn | strategies.Exists | strategies.DoesNotExist]
    | None,
) -> tuple[object, ...]:
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
        raise ValueError("enforce_memory=True needs memory=, the most bytes that the task or actor may use.")
    return options.memory


def _check_fits(group: PlacementGroup, index: int, demand: dict[str, float]) -> None:
    """Refuse a bundle that the group does not have, or a demand that none of its bundles can ever meet.

    Raises:
        ValueError: either of these.
    """
    bundles = group.bundle_specs
    if not -1 <= index < len(bundles):
        raise ValueError(
            f"The bundle index {index} is invalid for placement group {group.id.hex()}: its bundles are 0 to "
            f"{len(bundles) - 1}, and -1 means any of them."
        )
    wanted = bundles if index == -1 else [bundles[index]]
    if bundles and not any(all(b.get(k, 0.0) >= v for k, v in demand.items()) for b in wanted):
        raise ValueError(
            f"{demand} fits in no bundle of placement group {group.id.hex()}, so it could never run. "
            f"The bundles: {wanted}. "
            "Ask for less, or make the group with a larger bundle."
        )


def _place(
    options: TaskOptions | ActorOptions, demand: dict[str, float]
) -> tuple[tuple[object, ...], LeaseSetup]:
    """The strategy, and what a worker is told of the placement group that it runs in.

    Raises:
        ValueError: there is no such strategy, no such bundle, or a demand that the group can never meet.
    """
    group, index, capture = _group_of(options)
    group_id: bytes | None = None
    if group == "default":
        group_id = context.facts.placement_group if capture else None
    elif _is_group(group):
        _check_fits(group, index, demand)
        group_id = group.id.binary()
    if group_id is None:
        if index != -1:
            raise ValueError(
                f"placement_group_bundle_index={index} has no placement group: without one the bundle index must be -1."
            )
        given = options.scheduling_strategy
        return strategy_of(None if _is_in_group(given) else given), {}
    return ("pg", group_id, index), {"pg_id": group_id, "capture": capture}


def _selector(labels: dict[str, str] | None) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((labels or {}).items()))


def _own_node() -> bytes:
    """The node that work of this process prefers: its own. Nothing on the head, which comes first anyway."""
    tag: str = context.facts.session.get("node_tag", "")
    return bytes.fromhex(tag)


def lease_of(options: TaskOptions | ActorOptions, env_key: str) -> tuple[LeaseSpec, LeaseSetup]:
    """The lease that a task or actor needs, and the setup of its worker."""
    demand = options.demand()
    check_shares(demand)
    is_actor = isinstance(options, ActorOptions)
    placement: tuple[tuple[str, float], ...] = ()
    if isinstance(options, ActorOptions):
        wanted = tuple(sorted(options.placement_demand().items()))
        if wanted != tuple(sorted(demand.items())):
            placement = wanted
    strategy, inside = _place(options, dict(placement) or demand)
    spec = LeaseSpec(
        resources=tuple(sorted(demand.items())),
        env_key=env_key,
        strategy=strategy,
        label_selector=_selector(options.label_selector),
        placement=placement,
        permanent=is_actor,
        memory_cap=_memory_cap(options),
        origin=_own_node(),
        fallbacks=tuple(_selector(each["label_selector"]) for each in options.fallback_strategy or ()),
    )
    return spec, {"resources": demand, **inside}
