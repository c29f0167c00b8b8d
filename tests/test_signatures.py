"""Which calls fit a signature, and what a person reads when one does not."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from sundog.signatures import Signature


class Sample:
    def plain(self, a: int, b: int = 2) -> None: ...

    def keyword(self, *, needed: int) -> None: ...

    def rest(self, *items: int, **named: int) -> None: ...

    @staticmethod
    def free(a: int) -> None: ...


def fits_quickly(signature: Signature, count: int) -> bool:
    return signature.low <= count <= signature.high


@pytest.mark.parametrize(("count", "fits"), [(0, False), (1, True), (2, True), (3, False)])
def test_positional_arguments_are_decided_by_their_number(count: int, fits: bool) -> None:
    assert fits_quickly(Signature.of(Sample.plain, bound=True), count) is fits


def test_a_required_keyword_always_needs_the_full_check() -> None:
    signature = Signature.of(Sample.keyword, bound=True)
    assert not fits_quickly(signature, 0)
    signature.check("keyword", (), {"needed": 1})
    with pytest.raises(TypeError, match="missing a required"):
        signature.check("keyword", (), {})


def test_rest_parameters_take_anything() -> None:
    signature = Signature.of(Sample.rest, bound=True)
    assert fits_quickly(signature, 0) and fits_quickly(signature, 50)
    signature.check("rest", (1, 2), {"x": 3})


def test_a_static_method_has_no_self_to_leave_out() -> None:
    assert fits_quickly(Signature.of(Sample.free), 1)


def test_what_tells_nothing_of_itself_takes_anything() -> None:
    class Mute:
        __signature__ = "none"

        def __call__(self) -> None: ...

    signature = Signature.of(Mute())
    signature.check("mute", (1, 2), {"x": 3})
    assert fits_quickly(signature, 9)


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((), {}, "missing a required argument: 'a'"),
        ((1, 2, 3), {}, "too many positional arguments"),
        ((1,), {"c": 1}, "unexpected keyword argument 'c'"),
        ((1,), {"a": 1}, "multiple values for argument 'a'"),
    ],
)
def test_a_call_that_cannot_begin_says_why_and_what_is_taken(
    args: tuple[Any, ...], kwargs: dict[str, Any], words: str
) -> None:
    signature = pickle.loads(pickle.dumps(Signature.of(Sample.plain, bound=True)))
    with pytest.raises(TypeError) as caught:
        signature.check("Sample.plain", args, kwargs)
    assert words in str(caught.value)
    assert "Sample.plain.remote()" in str(caught.value) and "(a, b=…)" in str(caught.value)
