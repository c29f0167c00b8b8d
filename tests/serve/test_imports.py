"""Names of things in modules, and what they name as a pickle."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sundog.serve import imports


def test_a_path_names_an_attribute_with_a_colon_or_a_dot() -> None:
    assert imports.import_attr("os.path:join") is imports.import_attr("os.path.join")
    assert imports.import_attr("threading:Thread.start") is threading.Thread.start


def test_a_path_of_rays_own_modules_means_ours() -> None:
    from sundog.serve.request_router import RequestRouter

    assert imports.import_attr("ray.serve.request_router:RequestRouter") is RequestRouter


@pytest.mark.parametrize("path", ["app", ":app", "module:"])
def test_a_path_without_a_module_or_a_name_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="module:name"):
        imports.import_attr(path)


def test_what_is_missing_is_said_by_python() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        imports.import_attr("no_such_module:app")
    with pytest.raises(AttributeError):
        imports.import_attr("os:no_such_name")


def test_a_setting_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert imports.setting("RAY_SERVE_NO_SUCH", 3.0) == 3.0
    monkeypatch.setenv("RAY_SERVE_NO_SUCH", "7")
    assert imports.setting("RAY_SERVE_NO_SUCH", 3.0) == 7.0
    monkeypatch.setenv("RAY_SERVE_NO_SUCH", "many")
    with pytest.raises(ValueError, match="RAY_SERVE_NO_SUCH='many'"):
        imports.setting("RAY_SERVE_NO_SUCH", 3.0)


def test_code_beside_a_script_travels_in_the_pickle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "beside.py").write_text("def double(x):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import importlib

    blob = imports.pickle_by_value(importlib.import_module("beside").double)
    done = subprocess.run(  # a process that cannot import it
        [sys.executable, "-c", f"import pickle; print(pickle.loads({blob!r})(4))"],
        capture_output=True,
        text=True,
        cwd="/",
        check=True,
    )
    assert done.stdout == "8\n"


def test_locks_are_pickled_as_new_ones() -> None:
    kept = {"lock": threading.Lock(), "again": threading.RLock()}
    kept["lock"].acquire()
    made = pickle.loads(imports.dumps(kept))
    assert made["lock"].acquire(blocking=False) and made["again"].acquire(blocking=False)
    kept["lock"].release()
