"""A resolved environment: copies, the key by which workers are shared, and what a child is handed on."""

from __future__ import annotations

from pathlib import Path

import pytest

from sundog.runtime_env.normal import NormalEnv, normalize


def resolve(tmp_path: Path, **fields: object) -> NormalEnv:
    session = tmp_path / "session"
    session.mkdir(exist_ok=True)
    return normalize(fields, session_dir=str(session))


def a_folder(tmp_path: Path, text: str = "x = 1") -> str:
    folder = tmp_path / "project"
    folder.mkdir(exist_ok=True)
    (folder / "module.py").write_text(text)
    return str(folder)


def test_nothing_asked_for_has_no_key(tmp_path: Path) -> None:
    assert normalize(None, session_dir=str(tmp_path)) == NormalEnv()
    assert resolve(tmp_path, env_vars={}).key == ""


def test_equal_environments_have_one_key_and_others_another(tmp_path: Path) -> None:
    one = resolve(tmp_path, env_vars={"A": "1", "B": "2"})
    assert one.key and one.key == resolve(tmp_path, env_vars={"B": "2", "A": "1"}).key
    assert one.key != resolve(tmp_path, env_vars={"A": "1", "B": "3"}).key


def test_a_working_dir_is_a_copy_of_that_moment(tmp_path: Path) -> None:
    folder = a_folder(tmp_path)
    found = resolve(tmp_path, working_dir=folder)
    (tmp_path / "project" / "module.py").write_text("x = 2, and longer")
    assert Path(found.working_dir, "module.py").read_text() == "x = 1"
    assert resolve(tmp_path, working_dir=folder).key != found.key


def test_a_child_that_is_handed_the_environment_gets_the_same_one(tmp_path: Path) -> None:
    found = resolve(tmp_path, working_dir=a_folder(tmp_path), env_vars={"A": "1"})
    again = normalize(found.as_runtime_env(), session_dir=str(tmp_path / "session"))
    assert (again.env_vars, again.working_dir) == (found.env_vars, found.working_dir)


def test_packages_give_a_folder_that_has_to_be_prepared(tmp_path: Path) -> None:
    found = resolve(tmp_path, pip=["six"])
    assert found.pip == ("six",) and found.pip_dir and found.needs_prepare
    assert found.pip_dir != resolve(tmp_path, pip=["six==1.16"]).pip_dir


@pytest.mark.parametrize("field", ["conda", "container", "image_uri", "java_jars"])
def test_a_field_that_is_not_supported_is_refused_with_what_to_do_instead(tmp_path: Path, field: str) -> None:
    with pytest.raises(ValueError, match=rf"runtime_env\['{field}'\] is not supported by sundog\. \w+"):
        resolve(tmp_path, **{field: {} if field != "java_jars" else []})


def test_what_is_no_mapping_is_refused() -> None:
    with pytest.raises(TypeError, match="must be a dict or RuntimeEnv, got list"):
        normalize([1], session_dir="/nowhere")  # type: ignore[arg-type]
