"""A pytest plugin: a test fails when its session got slower or larger than a stored one.

::

    @pytest.mark.sundog_baseline("resize", slower=0.2, larger=0.2)
    def test_resize(): ...

    pytest --sundog-update-baselines     # store what is measured now

What counts is what the test submitted: in the sessions that it started, or else in the one that a fixture gave it.
Owns the marker, the option, and the file of baselines (`sundog-baselines.json` in pytest's root folder, or the setting
`sundog_baselines`). Figures are by function (`advice.comparison`). Nothing of sundog is imported for tests without the
marker. A test that fails because an array is read-only gets a hint, if it uses sundog. Runs in pytest's process.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import pluggy

    from sundog.advice.comparison import SessionFigures
    from sundog.observe.sessions import Opened
    from sundog.plain import JsonObject

MARK = "sundog_baseline"
FILE = "sundog-baselines.json"
_SETTLES_S = 0.05  # arbitrary: far longer than a worker needs to record a task that it has answered


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
    began_s = time.time()
    outcome = yield
    if outcome.excinfo is not None:
        return  # the test failed by itself
    new = [each for each in all_sessions() if each.path not in before]
    own = [each for each in new if f"_{os.getpid()}_" in each.name] or _of_children(item.config, new)
    name = str(mark.args[0]) if mark.args else item.nodeid
    try:
        if _judge(item.config, name, own or _joined(), began_s, _limits(mark)):
            item.user_properties.append((MARK, name))
    except pytest.fail.Exception as failure:
        outcome.force_exception(failure)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Tell which tests were compared with nothing: their figures were stored."""
    stored = [
        str(value)
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "call"
        for key, value in report.user_properties
        if key == MARK
    ]
    if stored:
        file = config.getini("sundog_baselines")
        terminalreporter.write_line(
            f"sundog: compared nothing, and stored the figures of {', '.join(sorted(stored))} in {file}"
        )


def _of_children(config: pytest.Config, new: list[Opened]) -> list[Opened]:
    """Sessions of programs that the test ran. Under pytest-xdist they may be another test's."""
    return [] if hasattr(config, "workerinput") else new


def _joined() -> list[Opened]:
    """The session that this process is in: a fixture has started or joined it."""
    from sundog.observe.sessions import open_session
    from sundog.owner import context

    path = (context.facts.session or {}).get("path")
    return [open_session(str(path))] if path and os.path.isdir(str(path)) else []


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
    config: pytest.Config,
    name: str,
    sessions: list[Opened],
    began_s: float,
    allowed: list[tuple[str, float]],
) -> bool:
    """Compare, or store what is measured for the first time; whether it was stored."""
    from sundog.advice.comparison import SessionFigures, breaches

    if not sessions:
        pytest.fail(
            f"the test used no sundog session, so there is nothing to compare with {name!r}", pytrace=False
        )
    file = config.rootpath / str(config.getini("sundog_baselines"))
    stored = _read(file)
    now = _measured(sessions, began_s)
    if not now.functions:
        pytest.fail(
            f"the test has run no task in its session, so there is nothing to compare with {name!r}",
            pytrace=False,
        )
    if config.getoption("--sundog-update-baselines") or name not in stored:
        with _locked(file):
            stored = _read(file)
            stored[name] = now.as_dict()
            _write(file, stored)
        return True
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
    return False


def _measured(sessions: list[Opened], began_s: float) -> SessionFigures:
    """What the test did. In a session that runs, workers record a task after they have answered."""
    from sundog.advice.comparison import figures_of, together

    found = together([figures_of(each, since_s=began_s) for each in sessions])
    while any(each.is_live for each in sessions):
        time.sleep(_SETTLES_S)
        before, found = found, together([figures_of(each, since_s=began_s) for each in sessions])
        if found == before:
            break
    return found


@contextlib.contextmanager
def _locked(file: Path) -> Generator[None, None, None]:
    """Alone among the processes of pytest-xdist: each stores its own tests in the same file."""
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


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
