"""What can be asked of a session, and what these verbs say where there is none."""

from __future__ import annotations

from types import ModuleType

import pytest

import sundog
from sundog.exceptions import RaySystemError


def test_without_a_session_facts_of_it_are_an_error_and_none_is_started() -> None:
    for verb in (sundog.nodes, sundog.cluster_resources, sundog.available_resources):
        with pytest.raises(RaySystemError, match=r"init\(\)"):
            verb()
    with pytest.raises(RuntimeError, match="timeline"):
        sundog.timeline()
    assert not sundog.is_initialized()


def test_without_a_session_what_is_no_ref_is_still_told_first() -> None:
    with pytest.raises(ValueError, match="int"):
        sundog.get(3)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="int"):
        sundog.cancel(3)  # type: ignore[arg-type]
    assert sundog.wait([]) == ([], [])


def test_lists_are_lists_and_a_negative_timeout_of_get_is_none(ray: ModuleType) -> None:
    ref = ray.put(1)
    assert ray.get(ref, timeout=-2) == 1
    with pytest.raises(ValueError, match="tuple"):
        ray.get((ref,))
    with pytest.raises(TypeError, match="tuple"):
        ray.wait((ref,))


def test_what_init_gives_has_the_keys_that_programs_read(ray: ModuleType) -> None:
    told = ray.init(ignore_reinit_error=True).address_info
    for key in (
        "address",
        "gcs_address",
        "metrics_export_port",
        "node_id",
        "node_ip_address",
        "redis_address",
    ):
        assert key in told


def test_the_local_mode_that_ray_took_away_is_refused() -> None:
    with pytest.raises(RuntimeError, match="local_mode"):
        sundog.init(local_mode=True)
