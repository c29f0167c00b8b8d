"""A pytest plugin: a test fails when its session got slower or larger than a stored one.

::

    @pytest.mark.sundog_baseline("resize", slower=0.2, larger=0.2)
    def test_resize(): ...

    pytest --sundog-update-baselines     # store what is measured now

Owns the marker, the option, and the file of baselines (`sundog-baselines.json` in pytest's root folder, or the setting
`sundog_baselines`). Figures are by function (`advice.comparison`). Nothing of sundog is imported for tests without the
marker. A test that fails because an array is read-only gets a hint, if it uses sundog. Runs in pytest's process.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import pluggy

    from sundog.observe.sessions import Opened
    from sundog.plain import JsonObject

MARK = "sundog_baseline"
FILE = "sundog-baselines.json"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option and the setting."""
    group = parser.getgroup("sundog")
    group.addoption(
        "--sundog-update-baselines",
        action="store_true",
        help=f"store what tests marked with {MARK} measure, instead of comparing it",
    )
    parser.addini(
        "sundog_baselines", f"the file of sundog's baselines, below the root folder ({FILE})", default=FILE
    )


def pytest_configure(config: pytest.Config) -> None:
    """The marker."""
    config.addinivalue_line(
        "markers",
        f"{MARK}(name, slower=0.2, larger=0.2): fail if a function of the test's session is slower or larger than "
        "stored, by this share",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> None:
    """A test that wrote to an array in shared memory is told of `.copy()`, as a program in a terminal is."""
    if call.excinfo is not None and "sundog.exception_transport" in sys.modules:
        sys.modules["sundog.exception_transport"].hint_at_copy(call.excinfo.value)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, pluggy.Result[object], None]:
    """Compare the session of a marked test with the stored one."""
    mark = item.get_closest_marker(MARK)
    if mark is None:
        yield
        return
    from sundog.observe.sessions import all_sessions

    before = {each.path for each in all_sessions()}
    outcome = yield
    if outcome.excinfo is not None:
        return  # the test failed by itself
    new = [each for each in all_sessions() if each.path not in before]
    own = [each for each in new if f"_{os.getpid()}_" in each.name] or new
    name = str(mark.args[0]) if mark.args else item.nodeid
    try:
        _judge(item.config, name, own, _limits(mark))
    except pytest.fail.Exception as failure:
        outcome.force_exception(failure)


def _limits(mark: pytest.Mark) -> list[tuple[str, float]]:
    """By which shares a session may be slower and larger."""
    unknown = set(mark.kwargs) - {"slower", "larger"}
    if unknown:
        pytest.fail(f"{MARK} knows slower and larger, not {', '.join(sorted(unknown))}", pytrace=False)
    if len(mark.args) > 1:
        pytest.fail(f"{MARK} takes a name; shares are named: slower={mark.args[1]!r}", pytrace=False)
    found = []
    for each in ("slower", "larger"):
        share = mark.kwargs.get(each, 0.2)
        if isinstance(share, bool) or not isinstance(share, int | float) or not share >= 0:
            pytest.fail(f"{MARK}: {each}={share!r} is not a share; 0.2 allows 20 %", pytrace=False)
        found.append((each, float(share)))
    return found


def _judge(
    config: pytest.Config, name: str, sessions: list[Opened], allowed: list[tuple[str, float]]
) -> None:
    from sundog.advice.comparison import SessionFigures, breaches, figures_of

    if not sessions:
        pytest.fail(
            f"the test started no sundog session, so there is nothing to compare with {name!r}", pytrace=False
        )
    now = figures_of(sessions[0])
    file = config.rootpath / str(config.getini("sundog_baselines"))
    stored = _read(file)
    if config.getoption("--sundog-update-baselines") or name not in stored:
        stored[name] = now.as_dict()
        _write(file, stored)
        return
    try:
        before = SessionFigures.of_dict(name, stored[name])
    except ValueError as error:
        pytest.fail(f"{file}: {error}. Store it anew: pytest --sundog-update-baselines", pytrace=False)
    worse = breaches(before, now, allowed)
    if worse:
        text = "\n".join(f"  - {each}" for each in worse)
        pytest.fail(
            f"the session is worse than the stored one, {name!r} in {file}:\n{text}\n"
            "If that is meant: pytest --sundog-update-baselines",
            pytrace=False,
        )


def _read(file: Path) -> JsonObject:
    try:
        found = json.loads(file.read_text())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        found, wrong = None, f"is not JSON ({error})"
    else:
        wrong = "has no names at its top level"
    if not isinstance(found, dict):
        pytest.fail(f"{file} {wrong}: correct it or remove it", pytrace=False)
    return found


def _write(file: Path, stored: dict[str, object]) -> None:
    """Write the whole file or nothing: two pytest processes may do so."""
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=file.name)
    with os.fdopen(handle, "w") as opened:
        json.dump(stored, opened, indent=2, sort_keys=True)
        opened.write("\n")
    os.replace(temporary, file)
