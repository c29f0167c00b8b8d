"""Where a task or actor may run: values for the `scheduling_strategy` option.

Plain descriptions, checked when made; the scheduler reads their attributes. Own no state and import
nothing of the runtime, so they may be built anywhere and travel by pickle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from sundog.public_ids import NodeID
    from sundog.util.placement_group import PlacementGroup

__tracebackhide__ = True  # pytest folds the frames of this file


class _Described:
    """Value semantics: two strategies that say the same are equal, and print what they say."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    def __hash__(self) -> int:
        return hash((type(self).__name__, repr(sorted(self.__dict__.items()))))

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({facts})"


class PlacementGroupSchedulingStrategy(_Described):
    """Run inside a placement group.

    Args:
        placement_group: The group, or None for no group at all (not even the parent's).
        placement_group_bundle_index: Which bundle; -1 takes any that fits.
        placement_group_capture_child_tasks: Whether what it submits runs in the group too.
    """

    def __init__(
        self,
        placement_group: PlacementGroup | None,
        placement_group_bundle_index: int = -1,
        placement_group_capture_child_tasks: bool | None = None,
    ) -> None:
        self.placement_group = placement_group
        self.placement_group_bundle_index = placement_group_bundle_index
        self.placement_group_capture_child_tasks = placement_group_capture_child_tasks


class NodeAffinitySchedulingStrategy(_Described):
    """Run on one node.

    Args:
        node_id: Its hex id, as `nodes()` shows it.
        soft: When the node is gone or could never run this: True runs elsewhere, False fails.

    Raises:
        ValueError: `node_id` is no hex id, or the private flags contradict `soft`.
    """

    def __init__(
        self,
        node_id: str | bytes | NodeID,
        soft: bool,
        _spill_on_unavailable: bool = False,
        _fail_on_unavailable: bool = False,
    ) -> None:
        self.node_id: str = node_id if isinstance(node_id, str) else node_id.hex()
        self.soft = soft
        self._spill_on_unavailable = _spill_on_unavailable
        self._fail_on_unavailable = _fail_on_unavailable
        self._check()

    def _check(self) -> None:
        try:
            named = any(bytes.fromhex(self.node_id))
        except ValueError:
            named = False
        if not named:
            raise ValueError(f"{self.node_id!r} is not the hex id of a node. `sundog.nodes()` lists the ids.")
        if self._spill_on_unavailable and not self.soft:
            raise ValueError("_spill_on_unavailable works only with soft=True.")
        if self._fail_on_unavailable and self.soft:
            raise ValueError("_fail_on_unavailable works only with soft=False.")


def _label_values(operator: str, values: tuple[str, ...]) -> list[str]:
    if not values:
        raise ValueError(f'{operator}() needs at least one value, e.g. {operator}("value1", "value2").')
    for position, value in enumerate(values):
        if not isinstance(value, str):
            raise ValueError(
                f"{operator}() takes strings; the value in position {position} is {value!r} "
                f"of type {type(value).__name__}."
            )
    return list(values)


class In(_Described):
    """The node's label has one of these values."""

    def __init__(self, *values: str) -> None:
        self.values = _label_values("In", values)


class NotIn(_Described):
    """The node's label has none of these values."""

    def __init__(self, *values: str) -> None:
        self.values = _label_values("NotIn", values)


class Exists(_Described):
    """The node has the label, regardless of its value."""


class DoesNotExist(_Described):
    """The node does not have the label."""


LabelOperator = In | NotIn | Exists | DoesNotExist


class NodeLabelSchedulingStrategy(_Described):
    """Run on nodes chosen by their labels.

    Args:
        hard: Conditions that must hold, by label name.
        soft: Conditions that are preferred among the nodes left.

    Raises:
        ValueError: Both are empty, or a condition is not an `In`, `NotIn`, `Exists` or `DoesNotExist`.

    Example:
        >>> NodeLabelSchedulingStrategy({"region": In("eu")}).hard
        {'region': In(values=['eu'])}
    """

    def __init__(
        self, hard: dict[str, LabelOperator] | None, *, soft: dict[str, LabelOperator] | None = None
    ) -> None:
        self.hard = _checked(hard, "hard")
        self.soft = _checked(soft, "soft")
        if not (self.hard or self.soft):
            raise ValueError("NodeLabelSchedulingStrategy needs a condition in `hard` or in `soft`.")


SchedulingStrategyT = (
    Literal["DEFAULT", "SPREAD"]
    | PlacementGroupSchedulingStrategy
    | NodeAffinitySchedulingStrategy
    | NodeLabelSchedulingStrategy
    | None
)


def _checked(conditions: dict[str, LabelOperator] | None, param: str) -> dict[str, LabelOperator]:
    if conditions is None:
        return {}
    if not isinstance(conditions, dict):
        raise ValueError(
            f"`{param}` must be a dict of label name to In/NotIn/Exists/DoesNotExist, "
            f"got {type(conditions).__name__}."
        )
    for key, operator in conditions.items():
        if not isinstance(key, str):
            raise ValueError(f"`{param}`: label names are strings, got {key!r} of type {type(key).__name__}.")
        if not isinstance(operator, (In, NotIn, Exists, DoesNotExist)):
            raise ValueError(
                f"`{param}[{key!r}]` must be an In, NotIn, Exists or DoesNotExist, "
                f"got {operator!r} of type {type(operator).__name__}."
            )
    return dict(conditions)
