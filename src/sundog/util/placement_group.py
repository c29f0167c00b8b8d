"""Placement groups: resources reserved together, as bundles, on one node or across several.

Owns the public handle and the checks on what is asked for. The node owns the groups themselves
(`state/bundles.py`); every question here is one request to it. Runs in any process, any thread.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, TypeVar

import sundog
from sundog import engines
from sundog.option_checks import check_labels
from sundog.public_ids import PlacementGroupID
from sundog.refs import Counterparts
from sundog.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from sundog.wire.control import PgRemove
from sundog.wire.requests import PgByName, PgCreate, PgTable, PgWait, Request

if TYPE_CHECKING:
    from sundog.plain import JsonObject
    from sundog.refs import ObjectRef

__tracebackhide__ = True  # pytest folds the frames of this file

A = TypeVar("A")

STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")
VALID_PLACEMENT_GROUP_STRATEGIES = frozenset(STRATEGIES)
NODE_ID_LABEL_KEY = "ray.io/node-id"

Bundle = dict[str, float]


class PlacementGroup(metaclass=Counterparts):
    """A handle to a group. The handle can be sent to tasks, and equal ids are equal handles."""

    def __init__(self, id: PlacementGroupID | bytes, bundle_cache: list[Bundle] | None = None) -> None:
        self.id = PlacementGroupID(id) if isinstance(id, bytes) else id
        self.bundle_cache = bundle_cache
        self._placed = False  # the group was placed at its creation: the first `wait` here need not ask

    @staticmethod
    def empty() -> PlacementGroup:
        """The handle of no group."""
        return PlacementGroup(PlacementGroupID.nil(), [])

    @property
    def is_empty(self) -> bool:
        """Whether this is the handle of no group."""
        return bool(self.id.is_nil())

    def ready(self) -> ObjectRef[PlacementGroup]:
        """Give a ref that resolves, to this handle, once every bundle is reserved."""
        if self.is_empty:
            return sundog.put(self)
        # A task of the group that needs nothing can start exactly when the group is placed.
        strategy = PlacementGroupSchedulingStrategy(self, placement_group_capture_child_tasks=False)
        task = sundog.remote(_hand_back).options(
            num_cpus=0,
            scheduling_strategy=strategy,
            name="PlacementGroup.ready",
            max_retries=-1,
            enable_task_events=False,
        )
        return task.remote(self)

    def wait(self, timeout_seconds: float = 30) -> bool:
        """Wait until the group is placed.

        Args:
            timeout_seconds: How long; a negative value waits for ever.

        Returns:
            Whether it was placed in time.
        """
        if self.is_empty:
            return True
        placed, self._placed = self._placed, False
        if placed:
            return True
        timeout_s = None if timeout_seconds is None or timeout_seconds < 0 else float(timeout_seconds)
        return _ask(PgWait(self.id.binary(), timeout_s))

    @property
    def bundle_specs(self) -> list[Bundle]:
        """The bundles, as they were asked for."""
        if self.bundle_cache is None:
            row = _ask(PgTable(self.id.binary()))
            bundles = row.get("bundles", {})
            self.bundle_cache = [bundles[index] for index in sorted(bundles)]
        return self.bundle_cache

    @property
    def bundle_count(self) -> int:
        """How many bundles it has."""
        return len(self.bundle_specs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlacementGroup) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __reduce__(self) -> tuple[type[PlacementGroup], tuple[PlacementGroupID, list[Bundle] | None]]:
        return PlacementGroup, (self.id, self.bundle_cache)

    def __repr__(self) -> str:
        return f"PlacementGroup(id={self.id.hex()}, bundles={self.bundle_cache})"


def _ask(question: Request[A]) -> A:
    # Imported late: handles are created and pickled in processes that never ask the node.
    from sundog import api

    return api.control(question)


def _namespace() -> str:
    return str(sundog.get_runtime_context().namespace)


def _hand_back(group: PlacementGroup) -> PlacementGroup:
    return group


def placement_group(
    bundles: list[Bundle],
    strategy: str | None = None,
    name: str = "",
    lifetime: str | None = None,
    _soft_target_node_id: str | None = None,
    bundle_label_selector: list[dict[str, str]] | None = None,
    topology_strategy: dict[str, str] | None = None,
) -> PlacementGroup:
    """Ask for bundles of resources that are reserved all together or not at all.

    Returns at once; `ready()` and `wait()` of the handle tell when the group is placed.

    Args:
        bundles: What each bundle reserves, e.g. `[{"CPU": 1}, {"CPU": 1, "GPU": 1}]`.
        strategy: "PACK" (the default: few nodes), "SPREAD" (many), "STRICT_PACK" (exactly one node),
            "STRICT_SPREAD" (a node each).
        name: For `get_placement_group`.
        lifetime: None ends the group with its creator; "detached" keeps it.
        _soft_target_node_id: With STRICT_PACK: the node to take if the group fits there.
        bundle_label_selector: Labels that the node of each bundle must have.
        topology_strategy: `{"ray.io/node-id": strategy}` is another way to write `strategy`; `{label: "STRICT_PACK"}`
            puts all bundles on nodes that have one value of this label.

    Raises:
        ValueError: Anything of the above is not as described.
        TypeError: The name is no string.
    """
    if name is not None and not isinstance(name, str):
        raise TypeError(
            f"Placement group `name` must be a string, got {name!r} of type {type(name).__name__}."
        )
    validate_placement_group(
        bundles, strategy, lifetime, _soft_target_node_id, bundle_label_selector, topology_strategy
    )
    other = engines.elsewhere(start=True) if engines.current() is None else None
    if other is not None:
        theirs: PlacementGroup = other.placement(
            "placement_group",
            bundles,
            strategy,
            name,
            lifetime,
            _soft_target_node_id,
            bundle_label_selector,
            topology_strategy,
        )
        return theirs
    asked = [{resource: float(amount) for resource, amount in bundle.items()} for bundle in bundles]
    chosen = _node_strategy(strategy, topology_strategy)
    selectors = bundle_label_selector or []
    target = bytes.fromhex(_soft_target_node_id or "")
    label = _domain_label(topology_strategy)
    row = PgCreate(asked, chosen, name or "", lifetime, selectors, _namespace(), target, label)
    group_id, placed = _ask(row)
    group = PlacementGroup(group_id, asked)
    group._placed = placed
    return group


def remove_placement_group(placement_group: PlacementGroup) -> None:
    """Give the group's resources back. What still runs in it is stopped, and nothing more can run in it."""
    if not isinstance(placement_group, PlacementGroup):
        raise TypeError(
            f"remove_placement_group() takes a PlacementGroup, got {type(placement_group).__name__}"
        )
    if engines.foreign is not None:
        engines.foreign.placement("remove_placement_group", placement_group)
        return
    from sundog import api

    placement_group._placed = False
    api.tell(PgRemove(placement_group.id.binary()))
    # Answered after the removal: by then the workers in the group have been killed, and no task reaches them any more.
    _ask(PgTable(placement_group.id.binary()))


def get_placement_group(placement_group_name: str) -> PlacementGroup:
    """Find a group by its name.

    Raises:
        ValueError: The name is empty, or no group has it.
    """
    if not placement_group_name:
        raise ValueError("get_placement_group() needs the name of a group, got an empty one.")
    if (other := engines.elsewhere()) is not None:
        found: PlacementGroup = other.placement("get_placement_group", placement_group_name)
        return found
    group_id = _ask(PgByName(placement_group_name, _namespace()))
    if group_id is None:
        raise ValueError(
            f"No placement group is named {placement_group_name!r} in this namespace: it was never created, "
            "or was removed. See: sundog.util.placement_group_table()"
        )
    return PlacementGroup(group_id)


def placement_group_table(placement_group: PlacementGroup | None = None) -> JsonObject:
    """Describe one group, or all of them by hex id: name, bundles, strategy, state, stats."""
    if (other := engines.elsewhere()) is not None:
        table: JsonObject = other.placement("placement_group_table", placement_group)
        return table
    group_id = None if placement_group is None else placement_group.id.binary()
    return _ask(PgTable(group_id))


def get_current_placement_group() -> PlacementGroup | None:
    """Give the group that the calling task or actor runs in; None outside of any, as in a driver."""
    if (other := engines.elsewhere()) is not None:
        mine: PlacementGroup | None = other.placement("get_current_placement_group")
        return mine
    group_id = sundog.get_runtime_context().get_placement_group_id()
    return None if group_id is None else PlacementGroup(PlacementGroupID.from_hex(group_id))


def check_placement_group_index(placement_group: PlacementGroup, bundle_index: int) -> None:
    """Raise ValueError unless the group has this bundle; -1 means any."""
    if placement_group.is_empty:
        if bundle_index != -1:
            raise ValueError(f"Bundle index {bundle_index} was given without a placement group.")
    elif not -1 <= bundle_index < placement_group.bundle_count:
        raise ValueError(
            f"Placement group {placement_group.id.hex()} has bundles 0 to {placement_group.bundle_count - 1} "
            f"(-1 for any); there is no bundle {bundle_index}."
        )


def validate_placement_group(
    bundles: list[Bundle],
    strategy: str | None = None,
    lifetime: str | None = None,
    _soft_target_node_id: str | None = None,
    bundle_label_selector: list[dict[str, str]] | None = None,
    topology_strategy: dict[str, str] | None = None,
) -> None:
    """Check the arguments of `placement_group`; raises ValueError saying which one is wrong and why."""
    if strategy is not None and topology_strategy is not None:
        raise ValueError("`strategy` and `topology_strategy` cannot both be given: leave out `strategy`.")
    _check_topology(topology_strategy)
    chosen = _node_strategy(strategy, topology_strategy)
    if chosen not in STRATEGIES:
        raise ValueError(f"Invalid placement group strategy {chosen!r}. Valid ones: {', '.join(STRATEGIES)}.")
    if _soft_target_node_id:
        if chosen != "STRICT_PACK":
            raise ValueError(f"_soft_target_node_id works only with STRICT_PACK, not with {chosen}.")
        if not any(bytes.fromhex(_soft_target_node_id)):
            raise ValueError(f"_soft_target_node_id {_soft_target_node_id!r} is not the id of a node.")
    _check_bundles(bundles)
    if bundle_label_selector is not None:
        _check_selectors(bundle_label_selector, len(bundles))
    if lifetime not in (None, "detached"):
        raise ValueError(f"Placement group `lifetime` must be None or 'detached', got {lifetime!r}.")


def _node_strategy(strategy: str | None, topology: dict[str, str] | None) -> str:
    if topology is not None:
        return topology.get(NODE_ID_LABEL_KEY, "PACK")
    return "PACK" if strategy is None else strategy


def _check_topology(topology: dict[str, str] | None) -> None:
    if topology is None:
        return
    if not isinstance(topology, dict):
        raise ValueError(
            f"`topology_strategy` must be a dict like {{'ray.io/node-id': 'PACK'}}, not {topology!r}."
        )
    for label, strategy in topology.items():
        if not isinstance(label, str) or not label:
            raise ValueError(
                f"Its keys must be non-empty strings: the labels of `topology_strategy`, not {label!r}."
            )
        if strategy not in STRATEGIES:
            raise ValueError(f"Invalid topology strategy {strategy!r}. Valid ones: {', '.join(STRATEGIES)}.")
        if label != NODE_ID_LABEL_KEY and strategy != "STRICT_PACK":
            raise ValueError(f"For the label {label!r} only 'STRICT_PACK' is supported, not {strategy!r}.")
    labels = [label for label in topology if label != NODE_ID_LABEL_KEY]
    if len(labels) > 1:
        raise ValueError(
            f"There can be at most one topology label beside {NODE_ID_LABEL_KEY!r}, not {labels}."
        )


def _domain_label(topology: dict[str, str] | None) -> str:
    """The label whose value the nodes of all bundles must have in common; empty if there is none."""
    return next((label for label in topology or () if label != NODE_ID_LABEL_KEY), "")


def _check_bundles(bundles: object) -> None:
    if not isinstance(bundles, list):
        raise ValueError(f"Placement group bundles must be a list, got {type(bundles).__name__}.")
    example = 'a non-empty list of resource dictionaries, e.g. [{"CPU": 1.0}, {"GPU": 1.0}]'
    if not bundles:
        raise ValueError(f"Bundles must be {example}; got an empty list.")
    for bundle in bundles:
        if not isinstance(bundle, dict) or not all(
            isinstance(resource, str) and isinstance(amount, (int, float))
            for resource, amount in bundle.items()
        ):
            raise ValueError(f"Bundles must be {example}; got {bundle!r}.")
        if not any(bundle.values()):
            raise ValueError(f"A bundle cannot be empty or hold only zeros: {bundle!r} in {bundles!r}.")
        negative = [resource for resource, amount in bundle.items() if amount < 0]
        if negative:
            raise ValueError(f"A bundle cannot hold a negative amount of {negative[0]}: {bundle!r}.")
        if "bundle" in bundle:
            raise ValueError(f'The resource name "bundle" is reserved and cannot be in a bundle: {bundle!r}.')
        if "object_store_memory" in bundle:
            warnings.warn(
                "'object_store_memory' in a bundle reserves nothing; objects that do not fit are spilled.",
                DeprecationWarning,
                stacklevel=4,
            )


def _check_selectors(selectors: object, bundle_count: int) -> None:
    if not isinstance(selectors, list):
        raise ValueError(f"`bundle_label_selector` must be a list, got {type(selectors).__name__}.")
    if len(selectors) != bundle_count:
        raise ValueError(
            f"`bundle_label_selector` has {len(selectors)} entries for {bundle_count} bundles; give one each."
        )
    for selector in selectors:
        if not isinstance(selector, dict) or not all(
            isinstance(key, str) and isinstance(value, str) for key, value in selector.items()
        ):
            raise ValueError(f"A label selector maps strings to strings, got {selector!r}.")
        check_labels("bundle_label_selector", selector)
