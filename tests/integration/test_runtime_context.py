"""What running code can ask about itself, in a driver, a task and an actor."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import sundog
from sundog.notices import RayDeprecationWarning


def whereabouts() -> tuple[Any, Any]:
    here = sundog.get_runtime_context()
    return here.get_task_function_name(), here.get_task_name()


class Asks:
    def __init__(self) -> None:
        self.made = whereabouts()

    def method(self) -> Any:
        return self.made, whereabouts()


class AsksAsync:
    async def method(self) -> Any:
        return whereabouts()


def test_the_function_is_named_with_its_module_whatever_the_task_is_called(ray: ModuleType) -> None:
    task = ray.remote(whereabouts)
    assert ray.get(task.options(name="other").remote()) == (f"{__name__}.whereabouts", "other")
    made, called = ray.get(ray.remote(Asks).options(name="asker").remote().method.remote())
    assert made == (f"{__name__}.Asks.__init__", "asker:Asks.__init__")
    assert called == (f"{__name__}.Asks.method", "Asks.method")
    actor = ray.remote(AsksAsync).remote()
    assert ray.get(actor.method.remote())[0] == f"{__name__}.AsksAsync.method"


def test_asking_for_the_context_starts_a_session(ray_session: Callable[..., ModuleType]) -> None:
    ray_session(num_cpus=1)  # so that it is shut down
    sundog.shutdown()
    assert sundog.get_runtime_context().get_node_id()
    assert sundog.is_initialized()


def test_older_names_warn_and_what_only_workers_have_is_refused_in_a_driver(ray: ModuleType) -> None:
    here = ray.get_runtime_context()
    with pytest.warns(RayDeprecationWarning, match=r"Use get_node_id\(\) instead"):
        assert here.node_id.hex() == here.get_node_id()
    with pytest.warns(RayDeprecationWarning):
        assert here.current_placement_group_id.is_nil()
    with pytest.raises(AssertionError, match="driver"):
        here.get_assigned_resources()
    with pytest.warns(RayDeprecationWarning), pytest.raises(AssertionError):
        _ = here.task_id


def gpus() -> tuple[Any, Any, Any]:
    import os

    here = sundog.get_runtime_context()
    return sundog.get_gpu_ids(), os.environ.get("CUDA_VISIBLE_DEVICES"), here.get_accelerator_ids()["GPU"]


def test_gpus_that_the_user_named_keep_their_names(
    ray_session: Callable[..., ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-aa,GPU-bb")
    with pytest.raises(ValueError, match="shows only 2"):
        sundog.init(num_gpus=3)
    ray = ray_session(num_cpus=1, num_gpus=2)
    task = ray.remote(gpus)
    assert ray.get(task.options(num_gpus=2).remote()) == (
        ["GPU-aa", "GPU-bb"],
        "GPU-aa,GPU-bb",
        ["GPU-aa", "GPU-bb"],
    )
    assert ray.get(task.remote()) == ([], "GPU-aa,GPU-bb", [])  # none were asked for: left alone


@pytest.mark.parametrize(
    ("setting", "with_one", "with_none"),
    [
        (None, "0", None),
        ("accel_env_var_override_on_zero", "0", ""),
        ("experimental_noset_cuda_visible_devices", None, None),
    ],
)
def test_settings_say_whether_the_variable_is_set_or_emptied(
    ray_session: Callable[..., ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    setting: str | None,
    with_one: str | None,
    with_none: str | None,
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if setting:
        monkeypatch.setenv(f"RAY_{setting.upper()}", "1")
    ray = ray_session(num_cpus=1, num_gpus=1)
    task = ray.remote(gpus)
    assert ray.get(task.options(num_gpus=0).remote())[1] == with_none
    assert ray.get(task.options(num_gpus=1).remote()) == ([0], with_one, ["0"])


def test_accelerators_of_other_makers_have_ids_and_variables_while_they_are_held(
    ray_session: Callable[..., ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "4,6")
    monkeypatch.setenv("RAY_OVERRIDE_RESOURCES", '{"TPU": 4, "CPU": 1, "slot": 2}')
    monkeypatch.setenv("RAY_OVERRIDE_LABELS", '{"zone": "a"}')
    ray = ray_session(
        num_cpus=3, resources={"neuron_cores": 2, "slot": 5}, labels={"zone": "b", "disk": "ssd"}
    )
    assert {"CPU": 1, "slot": 2, "TPU": 4}.items() <= ray.cluster_resources().items()
    assert {"zone": "a", "disk": "ssd"}.items() <= ray.nodes()[0]["Labels"].items()
    names = ("NEURON_RT_VISIBLE_CORES", "TPU_VISIBLE_CHIPS", "TPU_CHIPS_PER_HOST_BOUNDS")

    @ray.remote
    def held() -> tuple[dict[str, list[str]], list[str | None]]:
        import os

        found = sundog.get_runtime_context().get_accelerator_ids()
        return {kind: ids for kind, ids in found.items() if ids}, [os.environ.get(name) for name in names]

    def held_with(**resources: float) -> Any:
        return ray.get(held.options(resources=resources).remote())

    assert held_with(neuron_cores=1) == ({"neuron_cores": ["4"]}, ["4", None, None])
    assert held_with(TPU=2) == ({"TPU": ["0", "1"]}, ["4,6", "0,1", "1,2,1"])
    assert held_with(TPU=4, neuron_cores=2) == (
        {"TPU": ["0", "1", "2", "3"], "neuron_cores": ["4", "6"]},
        ["4,6", "0,1,2,3", None],
    )
    assert held_with(slot=1) == ({}, ["4,6", None, None])


def test_an_attribute_of_the_instance_does_not_hide_a_method(ray: ModuleType) -> None:
    class Counter:
        def __init__(self) -> None:
            setattr(self, "value", 7)  # noqa: B010
            setattr(self, "helper", print)  # noqa: B010

        def value(self) -> int:
            return int(vars(self)["value"])

        @staticmethod
        def helper(x: int) -> int:
            return 2 * x

    actor = ray.remote(Counter).remote()
    assert ray.get([actor.value.remote(), actor.helper.remote(4)]) == [7, 8]


def test_a_constructor_may_be_a_coroutine(ray: ModuleType) -> None:
    class Slow:
        async def __init__(self, start: int) -> None:
            import asyncio

            await asyncio.sleep(0)
            self.start = start

        async def get(self) -> int:
            return self.start

    assert ray.get(ray.remote(Slow).remote(5).get.remote()) == 5


def test_names_of_placement_groups_belong_to_a_namespace(ray_session: Callable[..., ModuleType]) -> None:
    from sundog.util import get_placement_group, placement_group
    from tests.integration import drivers

    ray = ray_session(num_cpus=2, namespace="one")
    mine = placement_group([{"CPU": 1}], name="same")
    program = """
import sundog
from sundog.util import get_placement_group, placement_group
sundog.init(address={address!r}, namespace="two")
try:
    get_placement_group("same")
except ValueError:
    print("not here")
other = placement_group([{{"CPU": 1}}], name="same")
print(get_placement_group("same").id.hex() == other.id.hex())
"""
    done = drivers.run(program.format(address=ray.get_runtime_context().gcs_address))
    assert done == ["not here", "True"]
    assert get_placement_group("same") == mine
