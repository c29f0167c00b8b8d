"""Values of settings: what a text or a value of Python becomes, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from sundog.setting_values import parse, to_float

NO_BOUNDS: dict[str, object] = {"doc": "what it does", "low": None, "high": None}


@pytest.mark.parametrize(
    ("kind", "value", "parsed"),
    [
        ("bool", " Yes ", True),
        ("bool", "off", False),
        ("bool", True, True),
        ("int", " 8 ", 8),
        ("int", 250.0, 250),
        ("float", "0.5", 0.5),
        ("float", 3, 3.0),
        ("str", "/tmp", "/tmp"),
        ("str", Path("/tmp"), "/tmp"),
        ("str", ["numpy", "pandas"], "numpy,pandas"),
    ],
)
def test_a_text_or_a_value_becomes_the_type_of_its_setting(kind: str, value: object, parsed: object) -> None:
    found = parse("SUNDOG_x", value, kind, NO_BOUNDS)
    assert found == parsed and type(found) is type(parsed)


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        ("bool", "perhaps", "which is not a yes or no"),
        ("int", "8.5", "which is not a whole number"),
        ("int", True, "which is not a whole number"),
        ("float", "nan", "which is not a finite number"),
        ("float", None, "which is not a finite number"),
        ("str", 8, "which is not a text"),
        ("str", b"/tmp", "which is not a text"),
    ],
)
def test_a_value_of_another_type_is_refused_by_the_name_of_its_source(
    kind: str, value: object, words: str
) -> None:
    with pytest.raises(ValueError, match=f"^SUNDOG_x is .*{words}.*It sets: what it does"):
        parse("SUNDOG_x", value, kind, NO_BOUNDS)


def test_a_value_out_of_range_is_refused_with_the_range() -> None:
    with pytest.raises(ValueError, match=r"SUNDOG_x is 0, but must be at least 1\. It sets: what it does"):
        parse("SUNDOG_x", 0, "int", {**NO_BOUNDS, "low": 1})
    with pytest.raises(ValueError, match=r"must be between 0 and 1\."):
        parse("SUNDOG_x", "1.5", "float", {**NO_BOUNDS, "low": 0, "high": 1})


def test_a_number_that_is_not_finite_is_refused() -> None:
    assert to_float("1e3") == 1000.0
    for odd in ("inf", float("nan")):
        with pytest.raises(ValueError):
            to_float(odd)
