"""What the node remembers of its actors."""

from __future__ import annotations

import pytest

from sundog.node.rows import registration_of
from sundog.state.actors import Actors


def test_what_an_actor_was_registered_with_is_found_in_its_row() -> None:
    actors, actor_id = Actors(), bytes(16)
    actors.register(actor_id, owner=b"owner", spec={"class_name": "Counter"})
    assert registration_of(next(actors.rows()))["class_name"] == "Counter"


def test_a_row_of_an_actor_that_was_registered_with_nothing_is_a_mistake() -> None:
    actors, actor_id = Actors(), bytes(16)
    actors.register(actor_id, owner=b"owner")
    with pytest.raises(AssertionError):
        registration_of(next(actors.rows()))
