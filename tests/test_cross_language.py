"""Functions and actors of other languages are refused with one sentence."""

from __future__ import annotations

import pytest

from sundog import cross_language


@pytest.mark.parametrize(
    ("call", "arguments", "words"),
    [
        (cross_language.java_function, ("io.Count", "add"), "io.Count.add is written in Java"),
        (cross_language.java_actor_class, ("io.Count",), "io.Count is written in Java"),
        (cross_language.cpp_function, ("Plus",), "Plus is written in C"),
        (cross_language.cpp_actor_class, ("Make", "Count"), "Count is written in C"),
    ],
)
def test_each_way_to_another_language_is_refused_by_name(
    call: object, arguments: tuple[str, ...], words: str
) -> None:
    assert callable(call)
    with pytest.raises(NotImplementedError, match=words):
        call(*arguments)
