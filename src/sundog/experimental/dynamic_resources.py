"""`set_resource`, which Ray took away: the total of a resource is set when a session starts."""

from __future__ import annotations


def set_resource(resource_name: str, capacity: float, node_id: str | None = None) -> None:
    """Refuses.

    Raises:
        DeprecationWarning: always, as in Ray.
    """
    raise DeprecationWarning(
        f"The total of {resource_name!r} cannot be changed while a session runs: give it to init(resources=…)."
    )
