"""Fields of a runtime environment: what is refused, full forms, merging with the parent's."""

from __future__ import annotations

import doctest
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sundog.runtime_env import RuntimeEnv, RuntimeEnvConfig, fields, merge


def test_the_examples_in_the_docstrings_run() -> None:
    assert doctest.testmod(fields).failed == 0


def test_a_runtime_env_is_a_dict_of_its_fields(tmp_path: Path) -> None:
    env = RuntimeEnv(env_vars={"A": "1"}, working_dir=str(tmp_path), pip=None)
    assert env == {"env_vars": {"A": "1"}, "working_dir": str(tmp_path)}
    assert env.env_vars() == {"A": "1"} and env.working_dir() == str(tmp_path) and env.has_working_dir()
    assert not env.has_pip() and env.to_dict() == env
    assert RuntimeEnv.deserialize(env.serialize()) == env
    again = pickle.loads(pickle.dumps(env))
    assert type(again) is RuntimeEnv and again == env


def test_an_unknown_field_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(ValueError, match=r"no field 'env_var'.*Did you mean 'env_vars'.*working_dir"):
        RuntimeEnv(env_var={"A": "1"})


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"env_vars": {"A": 1}}, TypeError, "entry 'A': 1 has something of type int"),
        ({"env_vars": {1: "A"}}, TypeError, "must map str to str"),
        ({"env_vars": ["A=1"]}, TypeError, "got list"),
        ({"env_vars": {"A=B": "1"}}, ValueError, "cannot be the name of a variable"),
        ({"working_dir": "/no/such/place"}, ValueError, "does not exist"),
        ({"working_dir": 3}, TypeError, "must be a path"),
        ({"working_dir": "s3://bucket/x.zip"}, ValueError, "remote URIs are not fetched"),
        ({"working_dir": __file__}, ValueError, "neither a directory nor a .zip"),
        ({"py_modules": "x"}, TypeError, "list of paths or modules"),
        ({"excludes": "*.bin"}, TypeError, "list of str"),
        ({"pip": 3}, TypeError, "a list, a file or a dict"),
        ({"pip": [1]}, TypeError, "list of str"),
        ({"pip": "/no/such/requirements.txt"}, ValueError, "not a requirements file"),
        ({"pip": {"package": ["x"]}}, ValueError, "Did you mean 'packages'"),
        ({"pip": ["a"], "uv": ["b"]}, ValueError, "one of pip, uv and conda"),
        ({"config": {"setup_timeout": 3}}, ValueError, "Did you mean 'setup_timeout_seconds'"),
        ({"config": {"setup_timeout_seconds": 0}}, ValueError, "positive"),
        ({"config": {"setup_timeout_seconds": "9"}}, TypeError, "whole number"),
        ({"worker_process_setup_hook": 3}, TypeError, "a function or"),
    ],
)
def test_a_bad_value_is_refused_with_what_is_allowed(
    given: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        RuntimeEnv(**given)


def test_setting_a_field_checks_it() -> None:
    env = RuntimeEnv()
    env.set("env_vars", {"A": "1"})
    with pytest.raises(TypeError):
        env.set("env_vars", {"A": 1})
    assert env == {"env_vars": {"A": "1"}}


def test_the_config_fills_in_its_defaults() -> None:
    assert RuntimeEnvConfig(setup_timeout_seconds=3)["eager_install"] is True


def test_a_requirements_file_is_read_when_it_is_given(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("# ours\nnumpy>=1 # fast\n\nattrs\n")
    for given in (str(file), {"packages": str(file)}):
        assert RuntimeEnv(pip=given)["pip"]["packages"] == ["numpy>=1", "attrs"]


def test_a_childs_variables_are_merged_and_its_other_fields_replace() -> None:
    parent = {"env_vars": {"A": "1", "B": "1"}, "pip": ["x"], "working_dir": "p"}
    child = {"env_vars": {"B": "2"}, "uv": ["y"], "working_dir": None}
    assert merge(parent, child) == {"env_vars": {"A": "1", "B": "2"}, "uv": ["y"], "working_dir": "p"}
    assert merge(None, None) == {}
    assert parent["env_vars"] == {"A": "1", "B": "1"}


def test_a_runtime_env_can_be_asked_what_it_has() -> None:
    made = RuntimeEnv(pip=["six"], env_vars={"A": "1"})
    assert (made.has_pip(), made.has_uv(), made.has_conda()) == (True, False, False)
    assert made.pip_config()["packages"] == ["six"]
    assert RuntimeEnv(conda="base").conda_env_name() == "base"
    assert RuntimeEnv(conda={"dependencies": []}).conda_config() == '{"dependencies": []}'
    assert made.plugins() == []


def test_what_is_set_later_is_checked_and_nothing_asked_for_is_left_out() -> None:
    made = RuntimeEnv(env_vars={}, pip=[])
    assert dict(made) == {}
    with pytest.raises(TypeError):
        made["env_vars"] = {"A": 1}
    for wrong in ({"conda": 3}, {"config": {"eager_install": 3}}):
        with pytest.raises(TypeError):
            RuntimeEnv(**wrong)


def test_a_field_is_read_as_an_object_of_a_class_and_the_defaults_are_told() -> None:
    @dataclass
    class Pip:
        packages: list[str]
        pip_check: bool = False

    env = RuntimeEnv(pip=["six"], py_executable="python -u")
    assert env.get("pip", data_class=Pip) == Pip(["six"])
    assert env.get("uv", data_class=Pip) is None
    assert env.get("uv", default=3) == 3
    assert env.py_executable() == "python -u"
    assert RuntimeEnv.deserialize(serialized_runtime_env=env.serialize()) == env
    assert RuntimeEnvConfig.default_config() == RuntimeEnvConfig(setup_timeout_seconds=600)


def test_two_installers_are_refused_before_their_fields_are_looked_at() -> None:
    with pytest.raises(ValueError, match="pip and conda"):
        RuntimeEnv(pip=["six"], conda=["numpy"])
