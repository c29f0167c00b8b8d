"""The eight bytes by which a task of Ray's goes in the records."""

from __future__ import annotations

from sundog.ray_engine.task_ids import unique_of

TASK = bytes.fromhex("0102030405060708" + "ff" * 12 + "01000000")


def test_a_task_goes_by_eight_bytes_that_are_a_positive_number() -> None:
    assert unique_of(bytes.fromhex("01020304050607ff") + TASK[8:]).hex() == "010203040506077f"


def test_the_creation_of_an_actor_goes_by_the_bytes_of_its_actor() -> None:
    assert unique_of(b"\xff" * 8 + b"actor-01" + bytes(8)) == b"actor-01"
