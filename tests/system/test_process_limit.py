"""The sentence for those who may not have more processes: it names the limit that is set."""

from __future__ import annotations

import resource

import pytest

from sundog.system import process_limit


def test_a_limit_is_named_with_the_command_that_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (64, 128))
    assert "this user may have 64 (ulimit -u)" in process_limit.text()


def test_without_a_limit_a_container_is_the_likely_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        resource, "getrlimit", lambda _which: (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    )
    text = process_limit.text()
    assert "has no limit of its own" in text and "a container may allow fewer" in text
