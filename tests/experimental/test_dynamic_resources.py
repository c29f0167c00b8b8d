"""`set_resource` refuses, as Ray's does, and names the way that works."""

from __future__ import annotations

import pytest

from sundog.experimental.dynamic_resources import set_resource


def test_the_total_of_a_resource_cannot_be_changed() -> None:
    with pytest.raises(DeprecationWarning, match=r"'spot'.*init\(resources="):
        set_resource("spot", 2)
