"""Variables that name plug-ins for `runtime_env`."""

from __future__ import annotations

import doctest

import pytest

from sundog.runtime_env import plugin_settings


def test_the_examples_run() -> None:
    assert doctest.testmod(plugin_settings).failed == 0


def test_our_variable_comes_before_rays() -> None:
    env = {"RAY_RUNTIME_ENV_PLUGINS": "[1]", "SUNDOG_RUNTIME_ENV_PLUGINS": "[2]"}
    assert plugin_settings.classes(env) == "[2]"
    assert plugin_settings.classes({"RAY_RUNTIME_ENV_PLUGINS": ""}) == ""


def test_a_size_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="RAY_RUNTIME_ENV_X_CACHE_SIZE_GB must be a number"):
        plugin_settings.cache_gb("x", {"RAY_RUNTIME_ENV_X_CACHE_SIZE_GB": "much"})
