"""The command line, environment and import path of programs of ours, without starting one."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

import pytest

from sundog import isolation


@pytest.mark.parametrize(
    "given, expected",
    [
        ([], ["-P"]),
        (["-I"], ["-I", "-s"]),
        (["-E"], ["-P", "-E"]),
        (["-s", "-O"], ["-P", "-s", "-O"]),
        (["-OO", "-B"], ["-P", "-O", "-O", "-B"]),
        (["-X", "utf8"], ["-P", "-X", "utf8=1"]),
        (["-X", "dev", "-X", "importtime"], ["-P", "-X", "dev"]),
    ],
)
def test_flags_that_the_users_code_can_notice_are_handed_on(given: list[str], expected: list[str]) -> None:
    code = f"import sys; sys.path.append({isolation._source()!r}); from sundog.isolation import flags; print(flags())"
    out = subprocess.run(
        [sys.executable, *given, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"LANG": "C.UTF-8"},
    ).stdout
    assert [each for each in eval(out) if each not in ("-X", "utf8=0")] == [
        each for each in expected if each != "-X"
    ]


def test_variables_that_lead_the_interpreter_astray_are_kept_under_another_name() -> None:
    given = {"PYTHONPATH": "/a", "PYTHONWARNINGS": "error", "PYTHONHASHSEED": "3", "HOME": "/b"}
    started = isolation.hide(given)
    assert "PYTHONPATH" not in started and "PYTHONWARNINGS" not in started
    assert started["PYTHONHASHSEED"] == "3", "what does not import is as the user set it"
    for name, value in isolation.unhide(started).items():
        if value is None:
            del started[name]
        else:
            started[name] = value
    assert started == given


def test_only_names_of_ours_are_found_and_only_in_their_places(tmp_path: Path) -> None:
    for name in ("psutil", "org", "json"):
        (tmp_path / f"{name}.py").write_text("")
    finder = isolation.Ours({"psutil": [str(tmp_path)]})
    found = finder.find_spec("psutil")
    assert found is not None and found.origin == str(tmp_path / "psutil.py")
    assert finder.find_spec("org") is None
    assert finder.find_spec("json") is None
    finder.places["numpy"] = [str(tmp_path)]
    assert finder.find_spec("numpy") is None, "it is not there"


def test_packages_beside_a_users_program_are_not_taken_for_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    path = ["/home/user/program", "/opt/libs", "/usr/lib/python3/dist-packages", "relative", ""]
    monkeypatch.setattr(sys, "path", path)
    monkeypatch.setattr(isolation, "_source", lambda: "/opt/sundog")
    assert isolation._places() == ["/opt/sundog", "/usr/lib/python3/dist-packages", "/opt/libs"]
    monkeypatch.setattr(sys, "path", [path[2], *path])
    assert "/usr/lib/python3/dist-packages" in isolation._places(), "installed packages, wherever they stand"
    monkeypatch.setattr(isolation, "_source", lambda: "/home/user/program")
    assert isolation._places()[0] == "/home/user/program", "they were installed there with us"


def test_a_package_is_loaded_ahead_only_from_where_packages_are_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import psutil

    assert isolation.preloadable("psutil") == [("psutil", str(Path(psutil.__file__).parents[1]))]
    monkeypatch.setattr(psutil, "__file__", "/home/user/program/psutil.py")
    assert isolation.preloadable("psutil", "never_imported") == []


def test_workers_get_modules_early_only_if_what_these_need_is_installed_as_packages_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import psutil

    monkeypatch.setattr(isolation, "_wanted", {})
    isolation.workers_want("sundog.some.module", "psutil", "never_installed")
    assert isolation.wanted() == ([], [])
    isolation.workers_want("sundog.some.module", "psutil")
    isolation.workers_want("sundog.another.module", "psutil")
    folder = str(Path(psutil.__file__).parents[1])
    assert isolation.wanted() == (["sundog.some.module", "sundog.another.module"], [folder])


def test_the_path_of_a_program_in_no_folder_in_particular_is_its_working_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", "/a", Path("/ignored-by-imports")])
    assert isolation.describe_interpreter().sys_path == [str(tmp_path), "/a"]


def test_packages_of_the_driver_come_after_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    finder = isolation.Ours({name: ["/opt/sundog", "/opt/site-packages"] for name in isolation.PACKAGES})
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    monkeypatch.setattr(sys, "path", ["/lib/python", "/opt/sundog"])
    isolation.find_packages()
    isolation.find_packages()
    assert sys.path == ["/lib/python", "/opt/sundog", "/opt/site-packages"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import ray\n@ray.remote\ndef f(): pass\n", False),
        ("import ray\n@ray.remote\ndef f(): pass\nclass A: pass\n", True),
        ("def main():\n    @ray.remote\n    def f(): pass\n", True),
        ("    @sundog.remote(num_cpus=2)\n    class A: pass\n", True),
        ("import ray\nray.remote(f)\n", False),
        ("import ray\ndef f(a):\n    pass\ng = ray.remote(f)\n", False),
        ("class A:\n    pass\nactor = sundog.remote( A ).remote()\n", True),
        ("def f(): pass\nref = g.remote(1, f())\n", False),
        ("# nothing\n", False),
    ],
)
def test_a_program_whose_workers_need_the_pickler_is_told_by_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, expected: bool
) -> None:
    script = tmp_path / "script.py"
    script.write_text(text, encoding="utf-8")
    main = ModuleType("__main__")
    main.__file__ = str(script)
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert isolation.main_needs_pickler(b".remote") is expected
    script.unlink()
    assert isolation.main_needs_pickler(b".remote") is False


def test_variables_that_move_the_library_are_kept_only_if_this_interpreter_has_it_there() -> None:
    right = {"PYTHONHOME": f"{sys.base_prefix}:{sys.base_exec_prefix}", "PYTHONPLATLIBDIR": sys.platlibdir}
    assert isolation.hide(right) == right
    wrong = {"PYTHONHOME": "/nonexistent", "PYTHONPLATLIBDIR": "nonexistent"}
    hidden = isolation.hide(wrong)
    assert not set(hidden) & set(wrong)
    changes = isolation.unhide(hidden)
    assert {name: value for name, value in changes.items() if value is not None} == wrong


def test_the_library_and_packages_of_ours_are_found_without_an_import_path() -> None:
    finder = isolation.LastResort([*sys.path, None, b"/"])
    for name in ("colorsys", "_socket", "cloudpickle", "sundog"):
        spec = finder.find_spec(name)
        assert spec is not None and spec.origin, name
    assert finder.find_spec("pytest") is None, "the program's own packages are not found"
    assert finder.find_spec("json.decoder", ["/"]) is None


def test_one_finder_of_last_resort_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    isolation.stand_by()
    isolation.stand_by()
    assert sum(isinstance(finder, isolation.LastResort) for finder in sys.meta_path) == 1
    kinds = [finder if isinstance(finder, type) else type(finder) for finder in sys.meta_path]
    assert kinds.index(isolation.LastResort) > kinds.index(PathFinder), "other finders are asked first"


def test_modules_that_are_out_of_reach_are_told_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finder = isolation.LastResort(sys.path)
    assert finder.find_spec("sundog.not_there", ["/"]) is None, "it is simply not there"
    assert finder.find_spec("msilib") is None, "this system has none"
    monkeypatch.setattr(isolation, "_source", lambda: str(tmp_path / "gone"))
    with pytest.raises(ModuleNotFoundError, match=r"cannot read .*gone any more.*os\.chroot"):
        finder.find_spec("sundog.api", ["/"])
    monkeypatch.setattr(os, "__file__", str(tmp_path / "gone" / "os.py"))
    finder.library = [str(tmp_path / "gone")]
    with pytest.raises(ModuleNotFoundError, match="The module colorsys cannot be loaded"):
        finder.find_spec("colorsys")


def test_files_of_the_program_in_place_of_modules_of_the_library_are_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = AttributeError("module 'resource' has no attribute 'getrlimit'")
    isolation.note_shadows(error)
    assert not hasattr(error, "__notes__")
    own = types.ModuleType("resource")
    own.__file__ = str(tmp_path / "resource.py")
    monkeypatch.setitem(sys.modules, "resource", own)
    isolation.note_shadows(error)
    [note] = error.__notes__
    assert str(tmp_path / "resource.py") in note and "Give it another name" in note
