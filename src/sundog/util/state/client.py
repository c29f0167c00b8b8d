"""`StateApiClient`: the state API as an object, for programs that choose the resource at run time.

Owns nothing: each method is a call of `api.py` or `summary.py`. Runs in the caller's process and thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sundog.util.state import api, summary
from sundog.util.state.schema import KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sundog.plain import JsonObject
    from sundog.util.state.common import (
        GetApiOptions,
        ListApiOptions,
        StateResource,
        SummaryApiOptions,
        SummaryResource,
    )
    from sundog.util.state.schema import StateSchema, TaskState


class StateApiClient:
    """Asks one session.

    Args:
        address: which; by default the one this process is in, or the one on this machine.
    """

    def __init__(
        self, address: str | None = None, cookies: object = None, headers: dict[str, object] | None = None
    ) -> None:
        self._address = address

    def list(
        self,
        resource: StateResource,
        options: ListApiOptions,
        raise_on_missing_output: bool = True,
        _explain: bool = False,
    ) -> list[StateSchema] | list[JsonObject]:
        """List rows of a resource."""
        if resource.value == "cluster_events":
            return api.list_cluster_events(self._address, options.filters)
        drivers: list[TaskState] = []
        if resource.value == "tasks" and not options.exclude_driver:
            drivers = api.list_driver_tasks(self._address, options.filters, options.detail)
        rows = api._list(
            KINDS[resource.value][0],
            resource.value,
            self._address,
            options.filters,
            options.limit,
            options.detail,
            raise_on_missing_output,
        )
        return [*drivers, *rows][: options.limit]

    def get(
        self, resource: StateResource, id: str, options: GetApiOptions | None = None, _explain: bool = False
    ) -> StateSchema | Sequence[StateSchema] | None:
        """Give the row with this id; of objects all references to it, of a retried task all attempts."""
        if resource.value == "tasks":
            return api.get_task(id, self._address)
        if resource.value == "objects":
            return api.get_objects(id, self._address)
        if resource.value == "jobs":
            return api.get_job(id, self._address)
        return api._one(KINDS[resource.value][0], resource.value, id, self._address)

    def summary(
        self,
        resource: SummaryResource,
        *,
        options: SummaryApiOptions | None = None,
        raise_on_missing_output: bool = True,
        _explain: bool = False,
    ) -> dict[str, JsonObject]:
        """Summarize a resource."""
        found: dict[str, JsonObject] = getattr(summary, f"summarize_{resource.value}")(
            self._address, raise_on_missing_output=raise_on_missing_output
        )
        return found
