"""The finder of `ray.…`: the same module object for what sundog has, and a reason for what it has not."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator

import pytest

import sundog
from sundog.compat.aliases import RayFinder


@pytest.fixture(autouse=True)
def _finder() -> Iterator[None]:
    if "ray" in sys.modules:
        pytest.skip("Ray itself is loaded in this process")
    finder = RayFinder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [each for each in sys.modules if each == "ray" or each.startswith("ray.")]:
            del sys.modules[name]


def test_ray_is_sundog_itself() -> None:
    assert importlib.import_module("ray") is sundog
    assert importlib.import_module("ray.util.queue") is importlib.import_module("sundog.util.queue")


def test_a_module_keeps_its_own_name_and_spec() -> None:
    module = importlib.import_module("ray.exceptions")
    assert module.__name__ == "sundog.exceptions"
    assert module.__spec__ is not None and module.__spec__.name == "sundog.exceptions"


@pytest.mark.parametrize("name", ["ray.state", "ray.owner", "ray.no_such_module", "ray.util.no_such_module"])
def test_a_module_that_is_not_rays_or_not_ours_is_refused_with_the_name_that_was_asked_for(name: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=name) as caught:
        importlib.import_module(name)
    assert caught.value.name == name


def test_a_private_module_of_ray_is_named_as_such() -> None:
    with pytest.raises(ModuleNotFoundError, match="private to Ray"):
        importlib.import_module("ray._raylet")


def test_a_library_of_ray_that_is_not_here_says_why_also_from_a_from_import() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"ray\.data"):
        importlib.import_module("ray.data")
    with pytest.raises(ImportError, match=r"ray\.data"):
        exec("from ray import data", {})


def test_the_base_class_of_plug_ins_is_found_where_ray_has_it() -> None:
    plugin = importlib.import_module("ray._private.runtime_env.plugin")
    assert plugin is importlib.import_module("sundog.runtime_env.plugin")
    with pytest.raises(AttributeError, match="private to Ray"):
        _ = importlib.import_module("ray._private").services


def test_other_packages_are_none_of_its_business() -> None:
    assert RayFinder().find_spec("rayon") is None and RayFinder().find_spec("json") is None
