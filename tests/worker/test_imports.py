"""What a worker tells of its imports."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from sundog.worker.imports import Imports, installed_in

SITE = "/somewhere/site-packages"


def _load(monkeypatch: pytest.MonkeyPatch, name: str, file: str | None) -> None:
    module = ModuleType(name)
    if file is not None:
        module.__file__ = file
    monkeypatch.setitem(sys.modules, name, module)


def test_modules_of_installed_packages_are_told_once_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[list[tuple[str, str]]] = []
    imports = Imports(told.append)
    imports.look()
    _load(monkeypatch, "lib_b", f"{SITE}/lib_b/__init__.py")
    _load(monkeypatch, "lib_b.part", f"{SITE}/lib_b/part.py")
    _load(monkeypatch, "lib_a", f"{SITE}/lib_a.py")
    _load(monkeypatch, "users_own", "/home/me/users_own.py")
    imports.look()
    imports.look()
    assert told == [[(SITE, "lib_b"), (SITE, "lib_b.part"), (SITE, "lib_a")]]


def test_a_worker_whose_imports_do_not_count_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    imports = Imports(None)
    _load(monkeypatch, "lib_a", f"{SITE}/lib_a.py")
    imports.look()


@pytest.mark.parametrize(
    ("name", "file", "expected"),
    [
        ("lib", f"{SITE}/lib/__init__.py", SITE),
        ("lib", f"{SITE}/lib.cpython-311.so", SITE),
        ("lib", "/home/me/lib.py", ""),
        ("lib", None, ""),
        ("cloudpickle", f"{SITE}/cloudpickle/__init__.py", ""),
    ],
)
def test_where_a_package_is_installed(
    monkeypatch: pytest.MonkeyPatch, name: str, file: str | None, expected: str
) -> None:
    _load(monkeypatch, name, file)
    assert installed_in(name) == expected
