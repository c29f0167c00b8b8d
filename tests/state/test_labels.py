"""Label conditions."""

from __future__ import annotations

import pytest

from sundog.state.labels import matches

LABELS = {"zone": "a", "disk": "ssd"}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (("zone", "a"), True),
        (("zone", "b"), False),
        (("zone", "!b"), True),
        (("zone", "!a"), False),
        (("zone", "in(b, a)"), True),
        (("zone", "!in(b,c)"), True),
        (("zone", "!in(a,c)"), False),
        (("rack", "1"), False),
        (("rack", "!1"), True),
        (("rack", "absent", ()), True),
        (("zone", "exists", ()), True),
        (("zone", "in", ("a", "b")), True),
        (("zone", "not_in", ("a",)), False),
    ],
)
def test_a_condition_on_a_label(condition: tuple[object, ...], expected: bool) -> None:
    assert matches(LABELS, [condition]) is expected


def test_every_condition_must_hold() -> None:
    assert matches(LABELS, [("zone", "a"), ("disk", "ssd")])
    assert not matches(LABELS, [("zone", "a"), ("disk", "hdd")])


def test_an_unknown_operator_is_refused_with_the_valid_ones() -> None:
    with pytest.raises(ValueError, match="valid: in, not_in, exists, absent"):
        matches(LABELS, [("zone", "like", ("a",))])
