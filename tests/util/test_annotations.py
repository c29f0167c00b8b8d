"""Marks of stability: they add a note and change no behaviour, but for the warning that was asked for."""

from __future__ import annotations

import warnings

import pytest

from sundog.util.annotations import Deprecated, DeveloperAPI, PublicAPI, RayDeprecationWarning


def test_a_mark_adds_a_note_and_returns_the_same_thing() -> None:
    def function() -> int:
        return 1

    assert PublicAPI(function) is function
    assert vars(function)["_annotated_type"] == "PublicAPI"
    assert DeveloperAPI(function) is function
    assert vars(function)["_annotated_type"] == "DeveloperAPI"


def test_a_mark_may_have_options() -> None:
    @PublicAPI(stability="alpha", api_group="tests")
    class Thing: ...

    assert vars(Thing)["_annotated"] == "Thing"


def test_an_unknown_option_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="stabilty"):
        PublicAPI(stabilty="beta")
    with pytest.raises(ValueError, match="stability"):
        DeveloperAPI(stability="beta")


def test_a_deprecated_function_is_silent_unless_it_shall_warn() -> None:
    @Deprecated
    def quiet(x: int) -> int:
        return x + 1

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert quiet(1) == 2


def test_a_deprecated_function_warns_at_each_call_with_its_message() -> None:
    @Deprecated(message="Use the other one.", warning=True)
    def loud(x: int) -> int:
        """Adds."""
        return x + 1

    with pytest.warns(RayDeprecationWarning, match=r"loud is deprecated\. Use the other one\."):
        assert loud(1) == 2
    assert loud.__doc__ == "Adds."


def test_a_deprecated_class_warns_when_it_is_made_and_stays_a_class() -> None:
    @Deprecated(message="", warning=True)
    class Old:
        def __init__(self, x: int) -> None:
            self.x = x

    with pytest.warns(RayDeprecationWarning):
        made = Old(3)
    assert isinstance(made, Old) and made.x == 3
