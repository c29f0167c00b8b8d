"""`with sundog.util.profile(...)` in a real session."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest


def test_a_block_of_a_program_is_profiled_with_its_tasks(ray: ModuleType) -> None:
    @ray.remote
    def nap(seconds: float) -> None:
        import time

        time.sleep(seconds)

    with ray.util.profile("wall") as profile:
        ray.get(nap.remote(0.2))
    assert profile.seconds()["nap"] > 0.1 and profile.seconds()["driver"] > 0.1
    assert Path(profile.html()).exists() and "wall profile of a block" in repr(profile)
    with pytest.raises(ValueError, match="not allowed"):
        with ray.util.profile("gpu"):
            pass
