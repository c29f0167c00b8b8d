"""The base class of plug-ins and its context, also under the paths by which Ray's users import them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module

import pytest

from sundog import compat
from sundog.runtime_env.plugin import RuntimeEnvContext, RuntimeEnvPlugin


@pytest.fixture
def shim() -> Iterator[None]:
    before = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "ray"}
    compat.install()
    yield
    compat.uninstall()
    sys.modules.update(before)


def test_a_context_survives_being_written_down() -> None:
    context = RuntimeEnvContext(env_vars={"A": "1"}, command_prefix=["nice"])
    again = RuntimeEnvContext.deserialize(context.serialize())
    assert vars(again) == vars(context)
    assert RuntimeEnvContext().py_executable == sys.executable


def test_rays_users_find_the_base_class_where_ray_has_it(shim: None) -> None:
    assert import_module("ray._private.runtime_env.plugin").RuntimeEnvPlugin is RuntimeEnvPlugin
    assert import_module("ray._private.runtime_env.context").RuntimeEnvContext is RuntimeEnvContext


def test_the_rest_of_rays_private_package_stays_refused(shim: None) -> None:
    import_module("ray._private.runtime_env.plugin")
    with pytest.raises(ModuleNotFoundError, match="private to Ray"):
        import_module("ray._private.runtime_env.packaging")
    with pytest.raises(AttributeError, match="private to Ray"):
        _ = import_module("ray._private").worker


def test_a_plug_in_that_says_nothing_more_than_its_name_is_whole() -> None:
    class Quiet(RuntimeEnvPlugin):
        name = "quiet"

    assert (Quiet.priority, Quiet().get_uris({})) == (10, [])  # type: ignore[arg-type]
