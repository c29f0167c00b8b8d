"""Every real program: it has a serial form and says which systems it runs on."""

from __future__ import annotations

from types import ModuleType

import pytest

from benchmarks.realwork import WORKLOADS, load, systems_of


@pytest.mark.parametrize("workload", [name for name in WORKLOADS if not name.startswith("grid")])
def test_every_workload_has_a_serial_form_and_runs_on_sundog(workload: str) -> None:
    module: ModuleType = load(workload)
    assert callable(module.serial)
    assert systems_of(workload)[:1] == ["sundog"]


def test_an_unknown_workload_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="known: grid_search"):
        load("nothing")
