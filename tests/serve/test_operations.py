"""What can be asked of Serve when none runs, and configs that are wrong."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

import sundog
from sundog.serve import operations


def test_nothing_runs_and_nothing_is_started_to_say_so() -> None:
    assert operations.details()["applications"] == {}
    operations.clear()
    assert not sundog.is_initialized()


def test_a_wrong_config_starts_nothing() -> None:
    with pytest.raises(ValidationError):
        operations.apply({"applications": [{"import_path": "nonsense"}]})
    assert not sundog.is_initialized()
