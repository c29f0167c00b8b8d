"""The resources of a node: what was given, what the machine has, what a launcher's variables say."""

from __future__ import annotations

import os

import pytest

from sundog.config import Config
from sundog.engines.capacity import from_variable, node_resources


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No launcher describes this machine, and it shows no GPU."""
    for name in ("RAY_OVERRIDE_RESOURCES", "RAY_OVERRIDE_LABELS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


def test_what_is_left_out_is_what_the_machine_has() -> None:
    found = node_resources(None, None, None, None, Config())
    assert found["CPU"] == len(os.sched_getaffinity(0))
    assert found["memory"] > 0 and found["object_store_memory"] > 0 and "GPU" not in found


def test_given_amounts_count_and_zero_is_left_out_but_for_cpus() -> None:
    found = node_resources(0, 0, {"slot": 2, "disk": 0}, 1 << 20, Config())
    assert (found["CPU"], found["slot"], found["object_store_memory"]) == (0.0, 2.0, float(1 << 20))
    assert "disk" not in found and "GPU" not in found


@pytest.mark.parametrize(
    ("resources", "kind", "words"),
    [
        ({"GPU": 1}, ValueError, "Give GPU through num_gpus=, not in resources=."),
        ({"": 1}, TypeError, "is not a name"),
        ({"slot": float("inf")}, ValueError, "must be a number, not inf"),
        ({"slot": float("nan")}, ValueError, "must be a number, not nan"),
        ({"slot": -1}, ValueError, "an amount must be zero or more"),
    ],
)
def test_a_name_or_an_amount_that_makes_no_sense_is_refused(
    resources: dict[str, float], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        node_resources(1, 0, resources, None, Config())


def test_the_variables_of_a_launcher_are_stronger_than_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_OVERRIDE_RESOURCES", '{"CPU": 3, "slot": 5}')
    found = node_resources(1, 0, {"slot": 2}, None, Config())
    assert (found["CPU"], found["slot"]) == (3.0, 5.0)


@pytest.mark.parametrize("variable", ["RAY_OVERRIDE_RESOURCES", "RAY_OVERRIDE_LABELS"])
def test_a_variable_that_is_not_a_json_object_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "[1]")
    with pytest.raises(ValueError, match=f"The variable {variable} must be a JSON object"):
        node_resources(1, 0, None, None, Config())


def test_a_variable_that_is_not_set_says_nothing() -> None:
    assert from_variable("RAY_OVERRIDE_LABELS", str) == {}
