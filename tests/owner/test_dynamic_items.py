"""The refs of a dynamic task: each is handed out once."""

from __future__ import annotations

from typing import Any

from sundog.owner.dynamic_items import DynamicObjectRefGenerator
from sundog.refs import ObjectRef
from tests.owner.fakes import new_id


def test_the_refs_come_in_order_and_each_once() -> None:
    refs: list[ObjectRef[Any]] = [ObjectRef(new_id(), None) for _ in range(3)]
    items = DynamicObjectRefGenerator(refs)
    assert len(items) == 3
    assert next(iter(items)) == refs[0] and len(items) == 2
    assert list(items) == refs[1:] and list(items) == []
