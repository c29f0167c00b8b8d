"""Which actors have a name. Asks the node; keeps nothing. Runs in any process, any thread."""

from __future__ import annotations

from typing import Literal, overload

from sundog import api, engines
from sundog.wire.requests import ListNamedActors


@overload
def list_named_actors(all_namespaces: Literal[False] = False) -> list[str]: ...
@overload
def list_named_actors(all_namespaces: Literal[True]) -> list[dict[str, str]]: ...
@overload
def list_named_actors(all_namespaces: bool) -> list[str] | list[dict[str, str]]: ...
def list_named_actors(all_namespaces: bool = False) -> list[str] | list[dict[str, str]]:
    """Name every living actor that was given a name.

    Args:
        all_namespaces: False lists the caller's own namespace. True lists every namespace, and each
            entry then says which one it is from.

    Returns:
        Names, or `{"name": ..., "namespace": ...}` for each actor when `all_namespaces` is set.
    """
    if engines.foreign is not None:
        return engines.foreign.named_actors(all_namespaces)
    return api.control(ListNamedActors(all_namespaces))
