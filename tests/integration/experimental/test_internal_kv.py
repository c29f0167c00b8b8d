"""Small values under keys that all processes of a session see."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from sundog.exceptions import RaySystemError
from sundog.experimental import internal_kv as kv


def test_a_value_is_seen_by_workers_and_theirs_by_the_driver(ray: ModuleType) -> None:
    assert kv._internal_kv_initialized()
    assert kv._internal_kv_put("key", "value") is False
    assert kv._internal_kv_put(b"key", b"other", overwrite=False) is True

    @ray.remote
    def exchange() -> Any:
        kv._internal_kv_put("made", b"there", namespace="n")
        return kv._internal_kv_get("key"), kv._internal_kv_exists("nothing")

    assert ray.get(exchange.remote()) == (b"value", False)
    assert kv._internal_kv_get("made", namespace=b"n") == b"there"
    assert kv._internal_kv_get("made") is None
    assert kv._internal_kv_list("m", namespace="n") == [b"made"]
    assert kv._internal_kv_del("ma", del_by_prefix=True, namespace="n") == 1


@pytest.mark.parametrize("error", [TypeError, AssertionError])
def test_what_is_neither_text_nor_bytes_is_refused(ray: ModuleType, error: type[Exception]) -> None:
    one: Any = 1
    for call in (
        lambda: kv._internal_kv_get(one),
        lambda: kv._internal_kv_put("key", one),
        lambda: kv._internal_kv_put("key", "1", one),
        lambda: kv._internal_kv_list("key", namespace=one),
    ):
        with pytest.raises(error, match=r"must be (str or bytes|a bool), not 1"):
            call()


def test_without_a_session_there_is_no_table() -> None:
    assert not kv._internal_kv_initialized()
    with pytest.raises(RaySystemError):
        kv._internal_kv_get("key")
