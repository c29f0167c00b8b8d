"""The state API under its older path."""

from __future__ import annotations

import pytest

from sundog.experimental.state import api
from sundog.util import state


def test_every_public_name_is_that_of_the_newer_path() -> None:
    assert api.list_tasks is state.list_tasks and api.StateApiClient is state.StateApiClient
    assert set(state.__all__) <= set(dir(api)) and not [name for name in dir(api) if name.startswith("_")]


def test_a_name_that_neither_has_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"list_nothing"):
        api.list_nothing  # noqa: B018
