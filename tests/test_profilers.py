"""Profilers of the user's: whether one is at work, and imports that it does not see."""

from __future__ import annotations

import cProfile
import gc
import pstats
import sys
import threading
from pathlib import Path

import pytest

from sundog import profilers


def test_a_profiler_is_seen_while_it_is_at_work() -> None:
    if profilers.profiler() is not None:
        pytest.skip("these tests run under a profiler")
    profile = cProfile.Profile()
    with profile:
        assert profilers.profiler() is not None
    assert profilers.profiler() is None


def test_an_import_under_a_profiler_is_done_and_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "wsgiref"]:
        monkeypatch.delitem(sys.modules, name)
    profile = cProfile.Profile()
    loaded = profile.runcall(profilers.load, "wsgiref.simple_server")
    assert loaded is sys.modules["wsgiref.simple_server"]
    names = {name for _, _, name in pstats.Stats(profile).stats}  # type: ignore[attr-defined]
    assert "load" in names
    # From Python 3.12 on cProfile looks at all threads, also at the one that imports.
    assert ("exec_module" in names) == (sys.version_info >= (3, 12))


def test_a_module_that_is_not_there_raises_where_it_was_asked_for() -> None:
    with pytest.raises(ModuleNotFoundError):
        cProfile.Profile().runcall(profilers.load, "sundog.no_such_module")


@pytest.mark.parametrize("was_on", [True, False])
def test_the_collector_rests_while_a_module_is_imported_and_is_as_before_after_it(
    was_on: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"looks_at_the_collector_{was_on}"
    (tmp_path / f"{name}.py").write_text("import gc\nwas_on = gc.isenabled()\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = gc.isenabled()
    try:
        (gc.enable if was_on else gc.disable)()
        assert profilers.load(name).was_on is False
        assert gc.isenabled() is was_on
        with pytest.raises(ImportError):
            profilers.load("no_such_module_at_all")
        assert gc.isenabled() is was_on
    finally:
        (gc.enable if before else gc.disable)()
        sys.modules.pop(name, None)


def test_a_module_that_another_thread_is_importing_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "half_imported"
    source = "import sys\nreached, go_on = sys.half_imported\nreached.set()\ngo_on.wait()\nlast = 1\n"
    (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    reached, go_on = threading.Event(), threading.Event()
    monkeypatch.setattr(sys, name, (reached, go_on), raising=False)
    seen: list[object] = []
    first = threading.Thread(target=profilers.load, args=(name,))
    second = threading.Thread(target=lambda: seen.append(getattr(profilers.load(name), "last", "half")))
    try:
        first.start()
        assert reached.wait(120)
        assert name in sys.modules
        assert profilers.loaded(name) is None
        second.start()
        second.join(0.2)  # a module that is not whole would be there at once
        go_on.set()
        second.join(120)
        assert seen == [1]
        assert profilers.loaded(name) is sys.modules[name]
    finally:
        go_on.set()
        first.join(120)
        sys.modules.pop(name, None)
