"""What a driver finds out about the modules that its workers will import, on packages and modules made up here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sundog.engines import needs
from sundog.engines.needs import Announcement, modules_for

PACKAGES = {"heavy": "/one/site-packages", "other": "/two/site-packages"}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModuleType]:
    """Put a module into `sys.modules`: its name, its file, its globals; a text is run in it."""

    def make(name: str, file: str, text: str = "", **values: object) -> ModuleType:
        module = ModuleType(name)
        module.__file__ = file
        if file.endswith("__init__.py"):
            module.__path__ = [str(Path(file).parent)]
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, name, module)
        exec(compile(text, file, "exec", dont_inherit=True), vars(module))
        return module

    return make


@pytest.fixture
def heavy(made: Callable[..., ModuleType]) -> Iterator[ModuleType]:
    root = made("heavy", "/one/site-packages/heavy/__init__.py")
    part = made("heavy.models.part", "/one/site-packages/heavy/models/part.py", "class Model: pass")
    vars(root)["models"] = made("heavy.models", "/one/site-packages/heavy/models/__init__.py", part=part)
    made("other", "/two/site-packages/other/__init__.py")
    return root


def _main(made: Callable[..., ModuleType], text: str, **values: object) -> ModuleType:
    return made("__main__", "/home/user/train.py", text, **values)


def _found(*definitions: object) -> list[str]:
    return modules_for(definitions, PACKAGES)


def test_a_function_of_the_script_needs_the_packages_that_it_names(made: Any, heavy: ModuleType) -> None:
    main = _main(
        made,
        "import heavy, other\nimport heavy.models.part\n"
        "def plain(x): return x\n"
        "def named(x): return heavy.models.part.Model()\n"
        "def inside():\n    return [heavy for _ in ()]\n",
    )
    assert _found(main.plain) == []
    assert _found(main.named) == ["heavy", "heavy.models", "heavy.models.part"]
    assert _found(main.inside) == ["heavy"]


def test_a_class_that_a_function_names_stands_for_its_module(made: Any, heavy: ModuleType) -> None:
    main = _main(made, "from heavy.models.part import Model\ndef fit(): return Model()\n")
    assert _found(main.fit) == ["heavy.models.part"]


def test_an_import_inside_a_function_counts_if_the_driver_has_the_module(
    made: Any, heavy: ModuleType
) -> None:
    main = _main(
        made, "def early():\n    import heavy.models\n    import absent_here\n    return heavy, absent_here\n"
    )
    assert "heavy.models" in _found(main.early)


def test_what_a_function_calls_and_captures_counts_too(made: Any, heavy: ModuleType) -> None:
    main = _main(
        made,
        "import heavy\nfrom heavy.models.part import Model\n"
        "def helper(): return heavy\ndef calls(): return helper()\n"
        "def closes(model):\n    def inner(): return model\n    return inner\n"
        "captures = closes(Model())\nempty = closes(Model)\n",
    )
    assert _found(main.calls) == ["heavy"]
    assert _found(main.captures) == _found(main.empty) == ["heavy.models.part"]


def test_the_methods_and_bases_of_a_class_of_the_script_count(made: Any, heavy: ModuleType) -> None:
    main = _main(
        made,
        "import heavy, other\nfrom heavy.models.part import Model\n"
        "class Actor:\n    @staticmethod\n    def make(): return heavy\n"
        "class Sized:\n    @property\n    def size(self): return other\n"
        "class Child(Model): pass\n",
    )
    assert _found(main.Actor) == ["heavy"]
    assert _found(main.Sized) == ["other"]
    assert _found(main.Child) == ["heavy.models.part"]


def test_a_function_of_a_module_needs_what_its_module_and_those_below_import(
    made: Any, heavy: ModuleType
) -> None:
    below = made("below", "/home/user/below.py", "import heavy")
    work = made("work", "/home/user/work.py", "import other\ndef run(x): return x\n", below=below)
    assert _found(work.run) == ["heavy", "other"]


def test_the_functions_of_a_module_count_with_what_they_name(made: Any, heavy: ModuleType) -> None:
    work = made(
        "work",
        "/home/user/work.py",
        "import heavy\nclass Actor:\n    def run(self): return heavy.models.part\ndef start(): return Actor()\n",
    )
    assert _found(work.start) == _found(work.Actor) == ["heavy", "heavy.models", "heavy.models.part"]


def test_a_module_that_its_package_loads_at_the_first_use_counts(made: Any, tmp_path: Path) -> None:
    for name in ("random", "unused"):
        (tmp_path / "lazy" / name).mkdir(parents=True)
        (tmp_path / "lazy" / name / "__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "lazy" / "tools.py").write_text("", encoding="utf-8")
    lazy = made("lazy", str(tmp_path / "lazy" / "__init__.py"), "here = 1\n")
    main = _main(
        made, "def one(): return lazy.random.rng(), lazy.here, lazy.tools, lazy.missing\n", lazy=lazy
    )
    assert modules_for([main.one], {"lazy": str(tmp_path)}) == ["lazy", "lazy.random", "lazy.tools"]


def test_a_module_of_an_installed_package_that_is_not_heavy_is_not_searched(
    made: Any, heavy: ModuleType
) -> None:
    light = made("light", "/one/site-packages/light/__init__.py", "import heavy\ndef run(): return 1\n")
    assert _found(light.run) == []


def test_arguments_stand_for_the_modules_of_their_classes(made: Any, heavy: ModuleType) -> None:
    model = sys.modules["heavy.models.part"].Model()
    assert _found([(len, (1, model), {"a": 2})]) == ["heavy.models.part"]
    assert _found([(len, (), {"model": model})]) == ["heavy.models.part"]


def test_the_first_definition_decides_and_takes_the_remote_functions_of_the_script_along(
    made: Any, heavy: ModuleType
) -> None:
    import sundog

    main = _main(
        made, "import heavy, other\ndef one(): return 1\ndef two(): return heavy\ndef three(): return other\n"
    )
    vars(main)["remote_two"] = sundog.remote(main.two)
    sent: list[Any] = []
    announcement = Announcement(PACKAGES, sent.append)
    announcement.make(main.one)
    announcement.make(main.three)
    assert sent == [[("/one/site-packages", "heavy")]]


def test_before_a_function_of_sundog_all_functions_of_the_script_count(made: Any, heavy: ModuleType) -> None:
    from sundog.util.multiprocessing import Pool

    _main(made, "import heavy\ndef one(): return heavy\nclass Two: pass\n")
    sent: list[Any] = []
    Announcement(PACKAGES, sent.append).make(Pool)
    assert sent == [[("/one/site-packages", "heavy")]]


def test_no_code_of_an_odd_object_is_run(made: Any, heavy: ModuleType) -> None:
    class Strange(type):
        def __getattribute__(cls, name: str) -> Any:
            raise RuntimeError(name)

    class Odd(metaclass=Strange):
        pass

    class Proxy:
        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError(name)

    class Lazy(ModuleType):
        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError(name)

    lazy = Lazy("waits")
    work = made(
        "work",
        "/home/user/work.py",
        "def run(): return lazy\n",
        lazy=lazy,
        odd=Odd,
        proxy=Proxy(),
        heavy=heavy,
    )
    main = _main(
        made, "def one(): return odd, proxy, lazy, heavy\n", odd=Odd, proxy=Proxy(), lazy=lazy, heavy=heavy
    )
    assert _found(main.one) == _found(work.run) == ["heavy"]


def test_a_search_that_fails_is_no_reason_to_fail_a_program(
    made: Any, heavy: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> list[str]:
        raise RecursionError

    monkeypatch.setattr(needs, "modules_for", fail)
    sent: list[Any] = []
    Announcement(PACKAGES, sent.append).make(_main(made, "def one(): return 1\n").one)
    assert sent == [[]]


def test_values_that_name_each_other_are_looked_at_once(made: Any, heavy: ModuleType) -> None:
    main = _main(made, "import heavy\ndef one(): return two()\ndef two(): return one(), heavy\n")
    assert _found(main.one, partial(main.two)) == ["heavy"]
