"""Which options are accepted, what they become, and the resources they add up to."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from sundog import options
from sundog.accelerator_kinds import check_shares
from sundog.options import (
    ActorOptions,
    MethodOptions,
    TaskOptions,
    parse_actor_options,
    parse_method_options,
    parse_task_options,
)
from sundog.plain import fields


class NodeAffinitySchedulingStrategy:
    """Stands for the class of that name, which lives in a layer above."""


def test_without_options_every_field_has_its_default() -> None:
    assert parse_task_options({}) == TaskOptions()
    assert parse_actor_options({}) == ActorOptions()
    assert parse_method_options({}) == MethodOptions()
    assert TaskOptions().max_retries == 3
    assert ActorOptions().max_restarts == 0
    assert MethodOptions().max_task_retries is None


def test_an_unknown_option_is_an_error_with_the_nearest_one_and_the_valid_list() -> None:
    with pytest.raises(ValueError, match="Did you mean 'num_cpus'") as caught:
        parse_task_options({"num_cpu": 1})
    assert "max_retries" in str(caught.value)
    assert "_labels" not in str(caught.value)


def test_an_option_of_another_kind_says_whose_it_is() -> None:
    with pytest.raises(ValueError, match="It is an option of an actor"):
        parse_task_options({"lifetime": "detached"})


class PlacementGroup:
    """Stands for the real one, which lives in a layer above the options and is known there by its name."""


@pytest.mark.parametrize("parse", [parse_task_options, parse_actor_options])
def test_an_old_placement_group_option_is_taken_and_says_what_replaced_it(parse: Any) -> None:
    group = PlacementGroup()
    with pytest.warns(DeprecationWarning, match="PlacementGroupSchedulingStrategy"):
        options = parse({"placement_group": group, "placement_group_bundle_index": 1})
    assert options.placement_group is group
    assert options.placement_group_bundle_index == 1
    with pytest.warns(DeprecationWarning, match="placement_group_capture_child_tasks"):
        assert options.merged(placement_group_capture_child_tasks=True).placement_group is group


def test_no_placement_group_is_not_the_default_one() -> None:
    assert parse_task_options({}).placement_group == "default"
    with pytest.warns(DeprecationWarning):
        assert parse_task_options({"placement_group": None}).placement_group is None


def test_a_placement_group_option_with_its_plain_value_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse_task_options({"placement_group": "default", "placement_group_bundle_index": -1})


def test_a_placement_group_cannot_be_given_in_both_ways() -> None:
    with pytest.raises(ValueError, match="both say where to run"):
        parse_task_options({"placement_group": PlacementGroup(), "scheduling_strategy": "SPREAD"})


def test_object_store_memory_of_an_actor_is_taken_and_said_to_reserve_nothing() -> None:
    with pytest.warns(DeprecationWarning, match="reserves nothing"):
        options = parse_actor_options({"object_store_memory": 10**8})
    assert options.demand() == {}
    with pytest.raises(ValueError, match="not an option of a task"):
        parse_task_options({"object_store_memory": 10**8})


def test_a_backpressure_of_minus_one_is_none() -> None:
    assert parse_task_options({"_generator_backpressure_num_objects": -1}) == parse_task_options({})
    with pytest.raises(ValueError, match="or -1 for no limit"):
        parse_task_options({"_generator_backpressure_num_objects": 0})


@pytest.mark.parametrize(
    "given",
    [
        {"num_cpus": "1"},
        {"max_retries": 1.5},
        {"resources": ["a"]},
        {"resources": {1: 1}},
        {"resources": {"a": "1"}},
        {"retry_exceptions": 3},
        {"scheduling_strategy": 3},
        {"placement_group": 3},
        {"placement_group": "SPREAD"},
        {"placement_group_bundle_index": 0.5},
        {"label_selector": {"a": 3}},
        {"fallback_strategy": {"label_selector": {"a": "b"}}},
        {"fallback_strategy": [{"label_selector": {"a": 3}}]},
        {"runtime_env": 3},
        {"accelerator_type": 3},
        {"enable_task_events": 3},
        {"name": 3},
        {"num_returns": 1.0},
        {"_metadata": 3},
    ],
)
def test_a_value_of_the_wrong_type_is_a_type_error_that_names_the_option(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=next(iter(given))):
        parse_task_options(given)


@pytest.mark.parametrize(
    "given",
    [
        {"num_cpus": -1},
        {"num_cpus": 0.00001},
        {"num_cpus": float("nan")},
        {"num_cpus": float("inf")},
        {"resources": {"TPU": 3}},
        {"resources": {"neuron_cores": 0.5}},
        {"memory": -1},
        {"resources": {"CPU": 1}},
        {"resources": {"a": -1}},
        {"resources": {"": 1}},
        {"max_retries": -2},
        {"max_calls": -1},
        {"num_returns": -1},
        {"num_returns": "many"},
        {"retry_exceptions": [3]},
        {"retry_exceptions": [int]},
        {"scheduling_strategy": "NEAR"},
        {"label_selector": {"a": "in("}},
        {"fallback_strategy": ["a"]},
        {"fallback_strategy": [{}]},
        {"fallback_strategy": [{"label_selector": {"a": "b"}, "num_cpus": 1}]},
        {"fallback_strategy": [{"label_selector": {"a": "in("}}]},
        {"_generator_backpressure_num_objects": 0},
    ],
)
def test_a_value_that_is_not_allowed_is_a_value_error_that_names_the_option(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(given))):
        parse_task_options(given)


@pytest.mark.parametrize(
    "given",
    [
        {"max_restarts": -2},
        {"max_task_retries": -2},
        {"max_concurrency": -1},
        {"max_pending_calls": -2},
        {"lifetime": "long"},
        {"name": ""},
        {"namespace": ""},
        {"concurrency_groups": {"io": 0}},
        {"concurrency_groups": [{"name": "io"}]},
    ],
)
def test_an_actor_value_that_is_not_allowed_is_a_value_error(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(given))):
        parse_actor_options(given)


@pytest.mark.parametrize(
    "given",
    [
        {"num_returns": 0},
        {"num_returns": "dynamic"},
        {"num_returns": "streaming"},
        {"max_retries": -1},
        {"scheduling_strategy": "SPREAD"},
        {"scheduling_strategy": NodeAffinitySchedulingStrategy()},
        {"label_selector": {"zone": "!in(a, b)"}},
        {"label_selector": {"zone": "!a-b"}},
        {"fallback_strategy": []},
        {"fallback_strategy": [{"label_selector": {"zone": "b"}}, {"label_selector": {}}]},
        {"runtime_env": {"env_vars": {"A": "1"}}},
        {"_labels": {"a": "b"}},
        {"_generator_backpressure_num_objects": 1},
    ],
)
def test_a_value_that_is_allowed_is_kept_as_it_is(given: dict[str, Any]) -> None:
    options = parse_task_options(given)
    for name, value in given.items():
        assert getattr(options, name) == value


def test_none_means_the_default_where_ray_takes_it() -> None:
    for parse, kind in (
        (parse_task_options, TaskOptions),
        (parse_actor_options, ActorOptions),
        (parse_method_options, MethodOptions),
    ):
        refused = {"placement_group", "enable_task_events"}
        refused |= options._NEVER_NONE if kind is not MethodOptions else set()
        assert parse({f.name: None for f in fields(kind) if f.name not in refused}) == kind()


@pytest.mark.parametrize("name", ["max_retries", "retry_exceptions"])
def test_none_is_refused_for_a_task_where_ray_refuses_it(name: str) -> None:
    with pytest.raises(TypeError, match=f"{name}=None"):
        TaskOptions().merged(**{name: None})


@pytest.mark.parametrize("name", ["max_restarts", "max_task_retries", "max_pending_calls", "get_if_exists"])
def test_none_is_refused_for_an_actor_where_ray_refuses_it(name: str) -> None:
    with pytest.raises(TypeError, match=f"{name}=None"):
        ActorOptions().merged(**{name: None})
    assert parse_actor_options({"max_task_retries": None, "max_pending_calls": None}) == ActorOptions()
    assert MethodOptions().merged(max_task_retries=None) == MethodOptions()


def test_an_unknown_word_for_the_number_of_results_is_of_the_wrong_type_as_in_ray() -> None:
    with pytest.raises(TypeError, match="num_returns='x'"):
        parse_task_options({"num_returns": "x"})


def test_zero_means_no_limit_where_it_does_in_ray() -> None:
    options = parse_actor_options({"max_concurrency": 0, "max_pending_calls": 0})
    assert options.max_concurrency is None
    assert options.max_pending_calls == -1


def test_retry_exceptions_becomes_a_tuple_that_except_understands() -> None:
    assert parse_task_options({"retry_exceptions": [ValueError, OSError]}).retry_exceptions == (
        ValueError,
        OSError,
    )
    assert parse_method_options({"retry_exceptions": True}).retry_exceptions is True


def test_concurrency_groups_may_be_a_dict_or_a_list() -> None:
    groups = [{"name": "io", "max_concurrency": 2}, {"name": "cpu", "max_concurrency": 1}]
    assert parse_actor_options({"concurrency_groups": groups}).concurrency_groups == {"io": 2, "cpu": 1}
    assert parse_actor_options({"concurrency_groups": {"io": 2}}).concurrency_groups == {"io": 2}


def test_a_dict_that_the_caller_changes_later_does_not_change_the_options() -> None:
    resources: dict[str, Any] = {"disk": 1}
    env: dict[str, Any] = {"env_vars": {}}
    options = parse_task_options({"resources": resources, "runtime_env": env})
    resources["disk"] = 9
    env["pip"] = {}
    assert options.resources == {"disk": 1.0}
    assert options.runtime_env == {"env_vars": {}}


def test_merging_replaces_only_what_is_named() -> None:
    options = parse_task_options({"num_cpus": 2, "max_calls": 5, "name": "a"})
    merged = options.merged(name="b", num_gpus=1)
    assert (merged.num_cpus, merged.max_calls, merged.name, merged.num_gpus) == (2, 5, "b", 1)
    assert options.name == "a"
    assert type(parse_method_options({}).merged(num_returns=2)) is MethodOptions


def test_merging_checks_what_it_is_given() -> None:
    with pytest.raises(ValueError, match="Did you mean"):
        TaskOptions().merged(num_cpu=1)
    with pytest.raises(TypeError, match="num_cpus"):
        TaskOptions().merged(num_cpus="1")


def test_what_only_the_decorator_can_set_is_refused_when_merging() -> None:
    with pytest.raises(ValueError, match="decorated"):
        TaskOptions().merged(max_calls=1)
    with pytest.raises(ValueError, match="decorated"):
        ActorOptions().merged(concurrency_groups={"io": 1})


def test_options_cannot_be_changed_in_place() -> None:
    with pytest.raises(AttributeError):
        TaskOptions().num_cpus = 3  # type: ignore[misc]


def test_a_task_demands_one_cpu_unless_it_says_otherwise() -> None:
    assert TaskOptions().demand() == {"CPU": 1.0}
    assert parse_task_options({"num_cpus": 0}).demand() == {}


def test_demand_adds_up_everything_that_was_asked_for() -> None:
    options = parse_task_options(
        {
            "num_cpus": 0.5,
            "num_gpus": 0.25,
            "memory": 1000,
            "resources": {"disk": 2, "none": 0},
            "accelerator_type": "A100",
        }
    )
    assert options.demand() == {
        "CPU": 0.5,
        "GPU": 0.25,
        "memory": 1000,
        "disk": 2,
        "accelerator_type:A100": 0.001,
    }


def test_demand_is_rounded_to_the_granularity_of_the_accounting() -> None:
    assert parse_task_options({"num_cpus": 1 / 3}).demand() == {"CPU": 0.3333}


@pytest.mark.parametrize(
    ("given", "running_cpus", "placing_cpus"),
    [
        ({}, 0, 1),
        ({"memory": 10}, 0, 1),
        ({"num_cpus": 0}, 0, 0),
        ({"num_cpus": 2}, 2, 2),
        ({"num_gpus": 1}, 1, 1),
        ({"num_gpus": 0}, 1, 1),
        ({"resources": {"disk": 1}}, 1, 1),
    ],
)
def test_an_actor_holds_a_cpu_only_if_it_names_resources_as_in_ray(
    given: dict[str, Any], running_cpus: float, placing_cpus: float
) -> None:
    options = parse_actor_options(given)
    assert options.demand().get("CPU", 0) == running_cpus
    assert options.placement_demand().get("CPU", 0) == placing_cpus


def test_get_if_exists_needs_a_name_by_the_time_the_actor_is_created() -> None:
    options = parse_actor_options({"get_if_exists": True})
    with pytest.raises(ValueError, match="name"):
        options.check_creation()
    options.merged(name="a").check_creation()


def test_several_threads_cannot_promise_order() -> None:
    options = parse_actor_options({"max_concurrency": 3, "allow_out_of_order_execution": False})
    with pytest.raises(ValueError, match="max_concurrency=3"):
        options.check_creation()
    options.merged(max_concurrency=1).check_creation()


@pytest.mark.parametrize(
    "selector", [{"-a": "x"}, {"a/b/c": "x"}, {"a": "-x"}, {"a": "x" * 64}, {"a" * 64: "x"}, {"a": "in(x"}]
)
def test_labels_that_no_node_can_have_are_refused(selector: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="not allowed"):
        parse_task_options({"label_selector": selector})


@pytest.mark.parametrize(
    "selector", [{"ray.io/zone": "a"}, {"a_b.c-d": "!in(x, y)"}, {"a": ""}, {"a": "!x"}, {"A": "in(1,2)"}]
)
def test_labels_that_a_node_can_have_are_taken(selector: dict[str, str]) -> None:
    assert parse_task_options({"label_selector": selector}).label_selector == selector


def test_a_decorator_that_is_written_wrong_is_an_error_of_every_kind_that_is_expected() -> None:
    import sundog

    for kind in (TypeError, ValueError, AssertionError):
        with pytest.raises(kind, match="@remote"):
            sundog.remote()
        with pytest.raises(kind, match="@remote"):
            sundog.remote(3)  # type: ignore[call-overload]
        with pytest.raises(kind, match="foo"):
            sundog.method(foo=1)  # type: ignore[call-overload]


@pytest.mark.parametrize("given", [{"num_gpus": 1.5}, {"resources": {"NPU": 1.5}}])
def test_one_and_a_half_accelerators_are_refused_when_the_task_is_submitted(given: dict[str, Any]) -> None:
    demand = parse_task_options(given).demand()
    with pytest.raises(ValueError, match=r"1\.5 (GPU|NPU) is not allowed"):
        check_shares(demand)


def test_bytes_of_memory_are_whole() -> None:
    assert parse_task_options({"memory": 2.9}).demand()["memory"] == 2
    assert "memory" not in parse_task_options({"memory": 0.5}).demand()
