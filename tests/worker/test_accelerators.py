"""Which accelerators a worker sees: ids in the user's own words, and variables that come back as they were."""

from __future__ import annotations

import pytest

from sundog.accelerator_kinds import GPU, KINDS
from sundog.config import Config
from sundog.worker.accelerators import Accelerators

CUDA = KINDS[GPU].variable
TPU = KINDS["TPU"].variable


def test_without_a_variable_of_the_user_pieces_are_numbers() -> None:
    assert Accelerators(Config(), {}).named(GPU, (0, 2)) == (0, 2)


def test_pieces_keep_the_names_that_the_user_gave_them() -> None:
    assert Accelerators(Config(), {CUDA: "GPU-aa,GPU-bb"}).named(GPU, (1,)) == ("GPU-bb",)


def test_a_position_past_the_users_variable_is_named_by_its_number() -> None:
    assert Accelerators(Config(), {CUDA: "7"}).named(GPU, (0, 1)) == ("7", "1")


def test_a_lease_with_pieces_sets_the_variable() -> None:
    assert Accelerators(Config(), {}).variables({GPU: (0, 1)}) == {CUDA: "0,1"}


def test_after_a_lease_with_pieces_the_variable_is_as_it_was() -> None:
    accelerators = Accelerators(Config(accel_env_var_override_on_zero=False), {CUDA: "5,6"})
    accelerators.variables({GPU: ("6",)})

    assert accelerators.variables({}) == {CUDA: "5,6"}
    assert accelerators.variables({}) == {}  # nothing of ours is left to take back


def test_a_lease_without_pieces_hides_all_if_the_setting_says_so() -> None:
    assert Accelerators(Config(accel_env_var_override_on_zero=True), {CUDA: "5"}).variables({}) == {CUDA: ""}


@pytest.mark.parametrize("value", ["1", "true", "yes"])
def test_a_variable_that_the_user_keeps_is_left_alone(value: str) -> None:
    accelerators = Accelerators(Config(), {KINDS[GPU].noset: value})

    assert accelerators.variables({GPU: (0,)}) == {}


def test_a_noset_variable_that_says_off_has_no_effect() -> None:
    assert Accelerators(Config(), {KINDS[GPU].noset: "False"}).variables({GPU: (0,)}) == {CUDA: "0"}


@pytest.mark.parametrize(("chips", "bounds"), [((3,), "1,1,1"), ((0, 1), "1,2,1"), ((0, 1, 2, 3), None)])
def test_a_program_with_few_tpu_chips_is_told_how_they_lie(
    chips: tuple[int, ...], bounds: str | None
) -> None:
    updates = Accelerators(Config(), {}).variables({"TPU": chips})

    assert updates[TPU] == ",".join(map(str, chips))
    assert updates["TPU_CHIPS_PER_HOST_BOUNDS"] == bounds
    assert updates["TPU_HOST_BOUNDS"] == ("1,1,1" if bounds else None)


def test_the_bounds_of_tpu_chips_go_with_them() -> None:
    accelerators = Accelerators(Config(), {})
    accelerators.variables({"TPU": (0,)})

    assert accelerators.variables({}) == {
        TPU: None,
        "TPU_CHIPS_PER_HOST_BOUNDS": None,
        "TPU_HOST_BOUNDS": None,
    }
