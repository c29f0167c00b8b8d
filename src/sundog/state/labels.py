"""Conditions on the labels of a node.

Owns: the reading of label expressions. A condition is ``(key, expression)`` with an expression of the form
``value``, ``!value``, ``in(a,b)``, ``!in(a,b)``, or ``(key, operator, values)`` with the operators ``in``,
``not_in``, ``exists`` and ``absent``. Refuses: any knowledge of nodes.
Runs in the node program, on its only thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def matches(labels: Mapping[str, str], conditions: Iterable[tuple[object, ...]]) -> bool:
    """Whether ``labels`` meet every one of ``conditions``.

    >>> matches({"zone": "a"}, [("zone", "in(a,b)"), ("disk", "!ssd")])
    True
    """
    return all(_holds(labels, condition) for condition in conditions)


def _holds(labels: Mapping[str, str], condition: tuple[object, ...]) -> bool:
    key = str(condition[0])
    operator, values = _operator(condition)
    value = labels.get(key)
    if operator == "exists":
        return value is not None
    if operator == "absent":
        return value is None
    if operator == "in":
        return value is not None and value in values
    return value is None or value not in values


def _operator(condition: tuple[object, ...]) -> tuple[str, tuple[str, ...]]:
    if len(condition) == 3:
        operator, values = str(condition[1]), condition[2]
        if operator not in ("in", "not_in", "exists", "absent"):
            raise ValueError(f"unknown label operator {operator!r}; valid: in, not_in, exists, absent")
        return operator, tuple(str(value) for value in values) if isinstance(values, (tuple, list)) else ()
    text = str(condition[1]).strip()
    negated = text.startswith("!")
    if negated:
        text = text[1:].strip()
    if text.startswith("in(") and text.endswith(")"):
        values = tuple(part.strip() for part in text[3:-1].split(","))
    else:
        values = (text,)
    return ("not_in" if negated else "in"), values
