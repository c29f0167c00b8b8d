"""The module that Ray has all verbs of the state API in; ids that can be none."""

from __future__ import annotations

import pytest

from sundog.util import state
from sundog.util.state import api
from sundog.util.state.exception import RayStateApiException


def test_every_verb_is_in_the_module_api_too() -> None:
    assert all(getattr(api, name) is getattr(state, name) for name in state.__all__)
    with pytest.raises(AttributeError, match="list_trees"):
        _ = api.list_trees


@pytest.mark.parametrize("wanted", ["aa", "no id", ""])
def test_what_can_be_no_id_is_refused_without_asking(wanted: str) -> None:
    for verb in (api.get_task, api.get_actor, api.get_node):
        with pytest.raises(RayStateApiException, match="hexadecimal"):
            verb(wanted)
