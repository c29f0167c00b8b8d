"""Values of settings: a variable's text, or a value given in Python, as the type of its setting.

Owns the conversions and the sentences that refuse a value. Pure: which variables there are, and which of them counts,
is decided in `config.py`, which imports this when a setting has a value of its own. Runs in every process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from math import isfinite
from typing import Any

_TRUE, _FALSE = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off"})


def parse(source: str, value: object, type_name: str, metadata: Mapping[str, object]) -> object:
    """Turn a variable's text, or a value given in Python, into the type of a setting.

    Args:
        source: the variable or key that has the value, as an error names it.
        type_name: "bool", "int", "float" or "str".
        metadata: the setting's `doc`, and the least and the greatest value that make sense, `low` and `high`.

    Raises:
        ValueError: the value is of another type, or out of range.

    >>> parse("SUNDOG_batch_max", " 8 ", "int", {"doc": "…", "low": 1, "high": None})
    8
    """
    try:
        parsed = _CONVERT[type_name](value)
    except (TypeError, ValueError):
        raise ValueError(
            f"{source} is {value!r}, which is not {_WANTED[type_name]}. It sets: {metadata['doc']}"
        ) from None
    low, high = metadata["low"], metadata["high"]
    # Written so that nan, which compares false with everything, is refused too.
    if not ((low is None or parsed >= low) and (high is None or parsed <= high)):
        allowed = f"at least {low}" if high is None else f"between {low} and {high}"
        raise ValueError(f"{source} is {value!r}, but must be {allowed}. It sets: {metadata['doc']}")
    return parsed


def _to_bool(value: object) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(value)


def _to_int(value: object) -> int:
    if isinstance(value, bool):
        raise TypeError(value)
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        return int(value.strip())
    # 250.0 from a JSON file means 250; 250.5 of something counted in whole units is a mistake.
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise TypeError(value)


def to_float(value: object) -> float:
    """A finite number; raises as `float` does."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise TypeError(value)
    number = float(value)
    if not isfinite(number):
        raise ValueError(value)
    return number


def _to_str(value: object) -> str:
    text: object = ",".join(value) if isinstance(value, (list, tuple)) else os.fspath(value)  # type: ignore[call-overload]
    if not isinstance(text, str):
        raise TypeError(value)
    return text


_CONVERT: dict[str, Any] = {"bool": _to_bool, "int": _to_int, "float": to_float, "str": _to_str}
_WANTED = {
    "bool": "a yes or no (1, 0, true, false, yes, no, on, off)",
    "int": "a whole number",
    "float": "a finite number",
    "str": "a text",
}
