"""Options of sundog in Ray's words."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from sundog.options import parse_actor_options, parse_method_options, parse_task_options
from sundog.ray_engine import wishes
from sundog.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from sundog.wire.inspect import measure_everything


def test_only_what_was_asked_for_goes_to_ray() -> None:
    options = parse_task_options({"num_cpus": 2, "max_retries": 3, "timeout_s": 5, "capsule": True})
    assert wishes.rays_options(options) == {"num_cpus": 2.0}
    assert wishes.shims(options) == (("timeout_s", 5.0), ("capsule", True))


def test_a_profile_is_carried_out_by_the_shim_and_one_of_the_whole_program_too() -> None:
    assert wishes.shims(parse_task_options({"profile": "wall"})) == (("profile", "wall"),)
    measure_everything("cpu:50")
    try:
        assert wishes.shims(parse_task_options({})) == (("profile", "*cpu:50"),)
        assert wishes.shims(parse_task_options({"profile": "wall"})) == (("profile", "wall"),)
    finally:
        measure_everything("")


@pytest.mark.parametrize("given", [{"queue_timeout_s": 1}, {"enforce_memory": True, "memory": 1e6}])
def test_an_option_that_nobody_would_carry_out_is_refused_by_name(given: dict[str, object]) -> None:
    name = next(iter(given))
    with pytest.raises(ValueError, match=rf"^{name}= cannot be carried out on engine 'ray'"):
        wishes.rays_options(parse_task_options(given))


def test_the_same_is_refused_of_an_actor_and_of_a_method() -> None:
    with pytest.raises(ValueError, match="enforce_memory="):
        wishes.rays_options(parse_actor_options({"enforce_memory": True, "memory": 1e6}))
    with pytest.raises(ValueError, match="queue_timeout_s="):
        wishes.method_options(parse_method_options({"queue_timeout_s": 1}))


def test_the_name_and_the_bound_of_a_method_stay_here() -> None:
    options = parse_method_options({"num_returns": 2, "timeout_s": 1, "retry_exceptions": [ValueError]})
    assert wishes.method_options(options) == {"num_returns": 2, "retry_exceptions": [ValueError]}


def test_a_strategy_becomes_rays_class_of_the_same_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class Theirs:
        def __init__(self, node_id: str, soft: bool) -> None:
            self.node_id, self.soft = node_id, soft

    module = ModuleType("ray.util.scheduling_strategies")
    module.NodeAffinitySchedulingStrategy = Theirs  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ray", ModuleType("ray"))
    monkeypatch.setitem(sys.modules, "ray.util", ModuleType("ray.util"))
    monkeypatch.setitem(sys.modules, "ray.util.scheduling_strategies", module)
    made = wishes.rays_strategy(NodeAffinitySchedulingStrategy("ab" * 28, soft=True))
    assert isinstance(made, Theirs) and made.node_id == "ab" * 28 and made.soft is True
