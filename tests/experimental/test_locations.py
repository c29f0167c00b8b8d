"""What is told of an object: where it is, and how large."""

from __future__ import annotations

import pytest

from sundog.experimental import locations


def test_an_object_that_is_not_ready_is_nowhere_and_has_no_size() -> None:
    assert locations._located(None) == {"node_ids": [], "object_size": None, "did_spill": False}


def test_the_size_of_an_object_is_that_of_its_stream_and_of_its_segment() -> None:
    assert locations._located((0, b"stream", None, None, None))["object_size"] == 6
    assert locations._located((0, b"stream", ("segment", 100), None, None))["object_size"] == 106


def test_without_a_session_there_is_nothing_to_tell() -> None:
    with pytest.raises(RuntimeError, match="init"):
        locations.get_local_object_locations([])
