"""Which engine a program is on, and what a verb finds that is sundog's own alone."""

from __future__ import annotations

import pytest

import sundog
from sundog import engines, refs
from sundog.config import engine_asked


def test_the_engine_is_named_by_the_argument_the_address_or_the_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert engines.chosen(None, None) == "local"
    assert engines.chosen("ray", "auto") == "ray"
    assert engines.chosen(None, "ray://host:10001") == "ray"
    monkeypatch.setenv("SUNDOG_ENGINE", "ray")
    assert engines.chosen(None, None) == "ray" == engine_asked()
    assert engines.chosen("local", None) == "local"


def test_an_unknown_engine_and_two_engines_are_refused() -> None:
    with pytest.raises(ValueError, match="There is no engine 'spark'"):
        sundog.init(engine="spark")
    with pytest.raises(ValueError, match="leave out engine='local'"):
        sundog.init("ray://host:10001", engine="local")


def test_instances_of_another_engines_class_count_once_it_is_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Theirs:
        pass

    monkeypatch.setattr(refs.ObjectRef, "theirs", (Theirs,))
    assert not isinstance(Theirs(), sundog.ObjectRef)
    monkeypatch.setattr(refs.Counterparts, "__instancecheck__", None, raising=False)
    refs.look_for_counterparts()
    assert isinstance(Theirs(), sundog.ObjectRef)
    assert isinstance(sundog.ObjectRef.nil(), sundog.ObjectRef)
    assert not isinstance(1, sundog.ObjectRef)


def test_what_is_sundogs_own_alone_is_refused_on_another_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other:
        name = "ray"

        def is_initialized(self) -> bool:
            return False

    monkeypatch.setattr(engines, "foreign", Other())
    from sundog.api import engine_or_init

    with pytest.raises(RuntimeError, match="needs sundog's own runtime"):
        engine_or_init()
