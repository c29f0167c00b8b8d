"""Stored errors as the reader of an object gets them."""

from __future__ import annotations

import pytest

from sundog import refs
from sundog.exceptions import ObjectLostError, RaySystemError, RayTaskError
from sundog.owner import raised


def test_an_error_of_a_task_is_raised_as_an_instance_of_its_own_class_too() -> None:
    try:
        raise KeyError("k")
    except KeyError as error:
        stored = RayTaskError.from_exception(error, function_name="f", pid=1, task_id="ab", skip_frames_of=())
    shown = raised.as_raised(stored)
    assert isinstance(shown, KeyError) and isinstance(shown, RayTaskError)


def test_an_error_of_the_system_is_raised_as_it_is_and_anything_else_is_named() -> None:
    error = RaySystemError("no")
    assert raised.as_raised(error) is error
    assert "'text' instead of an error" in str(raised.as_raised("text"))


def test_the_place_where_a_lost_object_was_made_is_added_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refs, "creation_sites", lambda names: dict.fromkeys(names, "file.py:3 in main"))
    error = ObjectLostError("It is lost.", object_ref_hex="ab")
    for _ in range(2):
        raised.as_raised(error)
    assert error.call_site == "file.py:3 in main"
    assert str(error).count("file.py:3") == 1


def test_bytes_that_cannot_be_read_here_say_why() -> None:
    text = str(raised.unreadable(b"\x01", ImportError("no module x")))
    assert "01 cannot be unpickled in this process: ImportError: no module x" in text
