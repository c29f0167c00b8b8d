"""Programs that may join a session, and the sentence for those that may not."""

from __future__ import annotations

from typing import Any

import pytest

from sundog.wire import versions

OURS = {"protocol": 2, "sundog": "0.1.0", "python": "3.11.7", "interpreter": "cpython-311"}


def refusal(theirs: dict[str, Any] | None) -> str | None:
    return versions.refusal("session_1", OURS, theirs, "/usr/bin/python3.11")


def test_the_same_minor_version_may_join() -> None:
    assert refusal({**OURS, "python": "3.11.9", "sundog": "0.1.1"}) is None
    assert versions.refusal("s", versions.own(), versions.own(), "") is None


def test_another_python_is_told_both_versions_and_what_to_type() -> None:
    said = refusal({**OURS, "python": "3.12.1", "interpreter": "cpython-312"})
    assert said is not None
    for part in (
        "session_1",
        "Python 3.11.7",
        "Python 3.12.1",
        "/usr/bin/python3.11",
        "init(address='local')",
    ):
        assert part in said
    assert "\n" not in said


def test_another_build_of_the_same_python_is_named_by_its_build() -> None:
    said = refusal({**OURS, "python": "3.11.7", "interpreter": "cpython-311d"})
    assert said is not None and "3.11.7 (cpython-311)" in said and "3.11.7 (cpython-311d)" in said


@pytest.mark.parametrize("theirs", [None, {}, {**OURS, "protocol": 1, "sundog": "0.0.9"}])
def test_another_protocol_is_told_both(theirs: dict[str, Any] | None) -> None:
    said = refusal(theirs)
    assert said is not None
    assert "sundog 0.1.0 (protocol 2)" in said
    assert ("0.0.9 (protocol 1)" if theirs else "of an earlier version (protocol unknown)") in said
