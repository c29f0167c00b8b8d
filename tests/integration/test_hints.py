"""What users are told when they do what does not work here, or works slowly: in a task, an actor and the driver."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.integration import drivers


def test_a_programs_own_debugger_is_left_in_place() -> None:
    with drivers.running(
        """
        ray.init(num_cpus=1)
        @ray.remote
        def task():
            return breakpoint(5)
        print(ray.get(task.remote()))
        """,
        PYTHONBREAKPOINT="builtins.abs",
    ) as driver:
        assert driver.rest() == ["5"]
        driver.close()


@pytest.mark.parametrize("elements", [10, 1_000_000])
def test_the_error_of_a_read_only_array_hints_at_copy(ray: ModuleType, elements: int) -> None:
    @ray.remote
    def change(array: Any) -> None:
        array[0] = 1

    @ray.remote
    class Actor:
        def change(self, array: Any) -> None:
            array += 1

    array = np.zeros(elements)
    for ref in (change.remote(array), Actor.remote().change.remote(ray.put(array))):
        with pytest.raises(ValueError, match="read-only") as caught:
            ray.get(ref, timeout=120)
        assert str(caught.value).count("array = array.copy()") == 1
    assert array[0] == 0


def test_other_errors_get_no_hint(ray: ModuleType) -> None:
    @ray.remote
    def fail() -> None:
        raise ValueError("no such thing")

    with pytest.raises(ValueError, match="no such thing") as caught:
        ray.get(fail.remote(), timeout=120)
    assert "copy()" not in str(caught.value)


def test_a_large_argument_passed_again_and_again_is_told_with_its_place() -> None:
    with drivers.running(
        """
        import numpy as np
        ray.init(num_cpus=1)
        @ray.remote
        def total(array): return float(array.sum())
        array = np.ones(1_000_000)
        for _ in range(6):
            ray.get(total.remote(array))
        stored = ray.put(array)
        for _ in range(6):
            ray.get(total.remote(stored))
        """
    ) as driver:
        driver.rest()
        driver.close()
    (told,) = [line for line in driver.errors if "passed by value" in line]
    assert "numpy.ndarray of 7.6 MiB was passed by value to total 3 times (<string>:" in told
