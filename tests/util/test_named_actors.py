"""`list_named_actors`: which engine is asked, and for which namespaces."""

from __future__ import annotations

from typing import Any

import pytest

from sundog import api, engines
from sundog.util import named_actors
from sundog.wire.requests import ListNamedActors


def _listed(*args: bool, **more: bool) -> Any:
    return named_actors.list_named_actors(*args, **more)


class FakeForeign:
    """An engine on a Ray cluster."""

    def named_actors(self, all_namespaces: bool) -> list[object]:
        return [all_namespaces]


def test_the_node_of_the_own_session_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def control(question: object) -> list[str]:
        asked.append(question)
        return ["tally"]

    monkeypatch.setattr(api, "control", control)
    assert _listed() == ["tally"] and _listed(all_namespaces=True) == ["tally"]
    assert asked == [ListNamedActors(False), ListNamedActors(True)]


def test_on_a_ray_cluster_that_cluster_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(engines, "foreign", FakeForeign())
        assert _listed(True) == [True]
