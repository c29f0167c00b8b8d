"""The check of each option: what it stores, and how it refuses."""

from __future__ import annotations

import pytest

from sundog import options
from sundog.option_checks import CHECKS, MisuseError, check_labels, is_a
from sundog.plain import fields


def test_every_option_has_a_check_and_every_check_an_option() -> None:
    kinds = (options.TaskOptions, options.ActorOptions, options.MethodOptions)
    assert {each.name for kind in kinds for each in fields(kind)} == set(CHECKS)


@pytest.mark.parametrize(
    "name", ["num_cpus", "memory", "timeout_s", "max_retries", "num_returns", "resources"]
)
def test_a_refusal_names_the_option(name: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"{name}="):
        CHECKS[name](name, object())


def test_an_amount_below_the_smallest_share_is_refused() -> None:
    assert CHECKS["num_cpus"]("num_cpus", 1) == 1.0
    with pytest.raises(ValueError, match="smallest share"):
        CHECKS["num_cpus"]("num_cpus", 1e-5)


def test_a_bound_on_time_is_above_zero() -> None:
    assert CHECKS["timeout_s"]("timeout_s", 2) == 2.0
    with pytest.raises(ValueError, match="above zero"):
        CHECKS["timeout_s"]("timeout_s", 0)


def test_an_unknown_word_for_the_number_of_results_is_misuse() -> None:
    assert CHECKS["num_returns"]("num_returns", "streaming") == "streaming"
    with pytest.raises(MisuseError, match="num_returns"):
        CHECKS["num_returns"]("num_returns", "many")


def test_groups_given_as_rays_list_become_a_dict() -> None:
    given = [{"name": "io", "max_concurrency": 2}]
    assert CHECKS["concurrency_groups"]("concurrency_groups", given) == {"io": 2}
    with pytest.raises(ValueError, match="each item"):
        CHECKS["concurrency_groups"]("concurrency_groups", [{"name": "io"}])


def test_a_label_is_checked_by_its_form() -> None:
    assert check_labels("label_selector", {"zone": "in(a, b)"}) == {"zone": "in(a, b)"}
    with pytest.raises(ValueError, match="label_selector"):
        check_labels("label_selector", {"-zone": "a"})


def test_a_class_of_a_higher_layer_is_known_by_its_name() -> None:
    class PlacementGroup:
        pass

    class Derived(PlacementGroup):
        pass

    assert is_a(PlacementGroup(), "PlacementGroup") and not is_a(3, "PlacementGroup")
    assert is_a(Derived(), "PlacementGroup") == ("PlacementGroup" in [c.__name__ for c in Derived.__mro__])
