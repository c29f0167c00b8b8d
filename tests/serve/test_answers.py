"""What handlers return, as HTTP."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from sundog.serve.answers import answer_of, answer_to_error
from sundog.serve.exceptions import BackPressureError


@dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("value", "kind", "body"),
    [
        ("ü", b"text/plain; charset=utf-8", "ü".encode()),
        (b"\x00", b"text/plain", b"\x00"),
        (None, b"text/plain", b""),
        ({"a": [1, 2]}, b"application/json", b'{"a":[1,2]}'),
        (Point(3), b"application/json", b'{"x":3}'),
        (np.arange(2), b"application/json", b"[0,1]"),
    ],
)
def test_values_become_bodies(value: object, kind: bytes, body: bytes) -> None:
    answer = answer_of(value)

    assert answer.status == 200
    assert dict(answer.headers)[b"content-type"] == kind
    assert answer.body == body


def test_errors_become_statuses() -> None:
    full = answer_to_error(BackPressureError(2, 2, 429, 1.2), "id")
    assert (full.status, dict(full.headers)[b"retry-after"]) == (429, b"2")
    assert answer_to_error(TimeoutError(), "id", 3.0).status == 408
    assert answer_to_error(RuntimeError("why"), "id").body == b"Internal Server Error: why"
