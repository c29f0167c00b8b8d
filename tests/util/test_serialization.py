"""Custom serializers, by Ray's module path: they hold for the exact class, until they are taken back."""

from __future__ import annotations

import threading

import pytest

from sundog.serialize.pack import pack, unpack
from sundog.util.serialization import deregister_serializer, register_serializer


class Locked:
    """Cannot be pickled, for it has a lock."""

    def __init__(self, value: int) -> None:
        self.value = value
        self.lock = threading.Lock()


def value_of(locked: Locked) -> int:
    return locked.value


def there_and_back(value: object) -> object:
    packed = pack(value, 1 << 20)
    return unpack(packed[0], packed[1])


def test_a_registered_class_goes_there_and_back_and_one_taken_back_does_not() -> None:
    register_serializer(Locked, serializer=value_of, deserializer=Locked)
    try:
        found = there_and_back(Locked(7))
        assert isinstance(found, Locked) and found.value == 7
    finally:
        deregister_serializer(Locked)
    with pytest.raises(TypeError):
        there_and_back(Locked(7))


def test_a_class_without_a_serializer_may_be_taken_back() -> None:
    deregister_serializer(Locked)
