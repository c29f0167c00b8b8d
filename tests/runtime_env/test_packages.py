"""The fields `pip` and `uv` of a runtime environment: their full form and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from sundog.runtime_env import RuntimeEnv
from sundog.runtime_env.normal import normalize
from sundog.runtime_env.packages import PIP, UV, check_packages


def test_the_full_form_has_what_was_given_and_whether_to_check(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("six  # for old code\n\n# a comment\nattrs>=1\n")
    assert check_packages(PIP, ["b", "a", "b"]) == {"packages": ["b", "a"], "pip_check": False}
    assert check_packages(PIP, str(file)) == {"packages": ["six", "attrs>=1"], "pip_check": False}
    given = {"packages": ["six"], "pip_check": True, "pip_version": "==23.0", "pip_install_options": ["-q"]}
    assert check_packages(PIP, given) == given
    assert check_packages(PIP, given) == check_packages(PIP, check_packages(PIP, given))
    assert check_packages(PIP, []) == {"packages": [], "pip_check": False}


def test_uv_has_its_own_names_and_does_not_cache_unless_told() -> None:
    full = {"packages": ["six"], "uv_check": False, "uv_pip_install_options": ["--no-cache"]}
    assert check_packages(UV, ["six"]) == full
    assert check_packages(UV, {"packages": ["six"], "uv_pip_install_options": []}) == {
        **full,
        "uv_pip_install_options": [],
    }


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"pip_check": True}, ValueError),
        ({"packages": ["a"], "pip_chek": True}, ValueError),
        ({"packages": ["a"], "uv_check": True}, ValueError),
        ("/no/such/file.txt", ValueError),
        ({"packages": ["a"], "pip_check": 1}, TypeError),
        ({"packages": ["a"], "pip_version": 23}, TypeError),
        ({"packages": ["a"], "pip_install_options": "-q"}, TypeError),
        ([1], TypeError),
        (3, TypeError),
    ],
)
def test_what_cannot_be_meant_is_refused(given: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="runtime_env"):
        check_packages(PIP, given)


def test_uv_is_installed_like_pip_without_the_options_of_uv(tmp_path: Path) -> None:
    env = normalize({"uv": {"packages": ["six"], "uv_check": True}}, session_dir=str(tmp_path))
    assert (env.pip, env.pip_options, env.pip_check) == (("six",), (), True)
    same = normalize({"pip": {"packages": ["six"], "pip_check": True}}, session_dir=str(tmp_path))
    assert same.pip_dir == env.pip_dir
    assert normalize(same.as_runtime_env(), session_dir=str(tmp_path)).pip_dir == env.pip_dir


def test_a_conda_file_is_read_where_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "env.yaml").write_text("dependencies:\n  - pip\n")
    assert RuntimeEnv(conda=str(tmp_path / "env.yaml"))["conda"] == {"dependencies": ["pip"]}
    assert RuntimeEnv(conda="named")["conda"] == "named"
    with pytest.raises(ValueError, match="does not exist"):
        RuntimeEnv(conda=str(tmp_path / "none.yml"))
