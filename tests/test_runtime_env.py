"""Runtime environments: copies by content, applying in a process, pip."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sundog.exceptions import RuntimeEnvSetupError
from sundog.runtime_env import (
    NormalEnv,
    fields,
    normalize,
    prepare,
    snapshot,
)


@pytest.fixture
def session(tmp_path: Path) -> str:
    path = tmp_path / "root" / "session_1"
    path.mkdir(parents=True)
    return str(path)


def write_tree(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("DOT", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def names_in(folder: str) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in Path(folder).rglob("*") if p.is_file())


def applied(env: NormalEnv, code: str, **environ: str) -> Any:
    """Apply `env` in a fresh interpreter, run `code` there, and return what it assigns to `result`."""
    script = (
        "import pickle, sys, json, os\n"
        "pickle.loads(bytes.fromhex(sys.argv[1])).apply_in_worker()\n"
        f"{code}\nprint(json.dumps(result))"
    )
    src = str(Path(fields.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", script, pickle.dumps(env).hex()],
        env={**os.environ, "PYTHONPATH": src, **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# ---------------------------------------------------------------------- normalize


def test_an_empty_environment_has_an_empty_key(session: str) -> None:
    assert normalize(None, session_dir=session) == normalize({}, session_dir=session) == NormalEnv()
    assert normalize({"env_vars": {}}, session_dir=session).key == ""


def test_keys_are_equal_for_equal_content_only(session: str, tmp_path: Path) -> None:
    def key(**env: Any) -> str:
        return normalize(env, session_dir=session).key

    assert (
        key(env_vars={"A": "1", "B": "2"}) == key(env_vars={"B": "2", "A": "1"}) != key(env_vars={"A": "1"})
    )
    one = write_tree(tmp_path / "one", aDOTpy="x")
    two = write_tree(tmp_path / "two", aDOTpy="x")
    three = write_tree(tmp_path / "three", aDOTpy="y")
    assert key(working_dir=str(one)) == key(working_dir=str(two)) != key(working_dir=str(three))
    assert key(working_dir=str(one)) != key(py_modules=[str(one)]) != key(py_modules=[str(two)])


def test_the_key_is_the_same_in_another_session(session: str, tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "w", aDOTpy="x")
    env = {"working_dir": str(tree), "env_vars": {"A": "1"}}
    other = str(tmp_path / "other")
    assert normalize(env, session_dir=session).key == normalize(env, session_dir=other).key


def test_a_working_dir_is_copied_at_submission(session: str, tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "w", aDOTpy="old", sub__b="b")
    (tree / "run.sh").write_text("#!/bin/sh\n")
    (tree / "run.sh").chmod(0o755)
    first = normalize({"working_dir": str(tree)}, session_dir=session)
    assert first.working_dir.startswith(session + "/runtime_resources/working_dir_files/")
    (tree / "a.py").write_text("newer")
    second = normalize({"working_dir": str(tree)}, session_dir=session)
    assert Path(first.working_dir, "a.py").read_text() == "old"
    assert Path(second.working_dir, "a.py").read_text() == "newer"
    assert first.key != second.key
    assert os.access(Path(first.working_dir, "run.sh"), os.X_OK)


def test_an_unchanged_directory_is_not_copied_again(
    session: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = write_tree(tmp_path / "w", aDOTpy="x")
    first = normalize({"working_dir": str(tree)}, session_dir=session)

    def forbidden(*_: object) -> str:
        raise AssertionError("copied again")

    monkeypatch.setattr(snapshot, "_copy", forbidden)
    assert normalize({"working_dir": str(tree)}, session_dir=session) == first


def test_an_environment_handed_on_by_a_task_is_used_in_place(
    session: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = write_tree(tmp_path / "w", aDOTpy="x")
    env = {"working_dir": str(tree), "py_modules": [str(tree)], "env_vars": {"A": "1"}, "pip": ["x"]}
    first = normalize({**env, "worker_process_setup_hook": lambda: None}, session_dir=session)
    monkeypatch.setattr(snapshot, "_publish", None)
    assert normalize(first.as_runtime_env(), session_dir=session) == first


def test_gitignore_and_excludes_decide_what_is_copied(session: str, tmp_path: Path) -> None:
    tree = write_tree(
        tmp_path / "w",
        DOTgitignore="*.log\n!keep.log\n/build\ndata/**/big\nold/\n# note\n",
        aDOTlog="",
        keepDOTlog="",
        build__x="",
        sub__build__y="",
        data__u__v__big="",
        data__small="",
        old__z="",
        sub__old="a file, not a directory",
        sub__DOTgitignore="local?.txt\n",
        sub__local1DOTtxt="",
        local1DOTtxt="",
        DOTgit__HEAD="",
        drop__me="",
        mDOT0="",
        mDOT9="",
    )
    (tree / "__pycache__").mkdir()
    (tree / "__pycache__" / "a.pyc").write_text("")
    env = normalize({"working_dir": str(tree), "excludes": ["drop", "m.[0-5]"]}, session_dir=session)
    assert names_in(env.working_dir) == [
        ".gitignore",
        "data/small",
        "keep.log",
        "local1.txt",
        "m.9",
        "sub/.gitignore",
        "sub/build/y",
        "sub/old",
    ]


def git_lists(tree: Path) -> list[str]:
    subprocess.run(["git", "init", "-q", str(tree)], check=True)
    command = ["git", "-C", str(tree), "ls-files", "--others", "--exclude-standard"]
    return sorted(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


@pytest.mark.parametrize(
    "rules",
    [
        "*.py",
        "a",
        "a/",
        "/a",
        "a/b",
        "**/b",
        "a/**",
        "a/**/c",
        "*\n!b",
        "?",
        "[ab].py",
        "[!a].py",
        "a/*\n!a/b",
        r"\!x",
    ],
)
def test_gitignore_rules_mean_what_git_says(session: str, tmp_path: Path, rules: str) -> None:
    tree = write_tree(
        tmp_path / "w", aDOTpy="", bDOTpy="", cDOTpy="", a__b__c="", a__b__d="", a__c="", d__a="", d__b=""
    )
    (tree / "!x").write_text("")
    (tree / ".gitignore").write_text(rules)
    env = normalize({"working_dir": str(tree)}, session_dir=session)
    assert names_in(env.working_dir) == git_lists(tree)


def test_a_directory_over_the_limit_is_refused_with_its_largest_files(
    session: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "SIZE_LIMIT_BYTES", 1 << 20)
    tree = write_tree(tmp_path / "w", small="x", model="y" * (3 << 20))
    with pytest.raises(RuntimeEnvSetupError, match=r"3 MiB, more than the 1 MiB.*model \(3 MiB\)") as caught:
        normalize({"working_dir": str(tree)}, session_dir=session)
    assert caught.value.size_bytes == (3 << 20) + 1  # type: ignore[attr-defined]


def test_a_zip_file_is_unpacked_and_cannot_write_outside(session: str, tmp_path: Path) -> None:
    path = tmp_path / "code.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("pkg/a.py", "x = 1")
        archive.writestr("../../evil", "no")
    env = normalize({"working_dir": str(path)}, session_dir=session)
    assert names_in(env.working_dir) == ["evil", "pkg/a.py"]
    assert [str(p.parent) for p in tmp_path.rglob("evil")] == [env.working_dir]


def test_nothing_unfinished_is_left_when_packaging_fails(
    session: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> str:
        raise PermissionError(13, "Permission denied", "secret.key")

    tree = write_tree(tmp_path / "w", a="x")
    monkeypatch.setattr(snapshot, "_copy", broken)
    with pytest.raises(RuntimeEnvSetupError, match=r"secret\.key"):
        normalize({"working_dir": str(tree)}, session_dir=session)
    assert os.listdir(os.path.join(session, "runtime_resources", "working_dir_files")) == []


@pytest.mark.parametrize("field", ["conda", "container", "image_uri"])
def test_fields_that_are_not_supported_say_what_to_do_instead(session: str, field: str) -> None:
    with pytest.raises(ValueError, match=f"{field}.*not supported by sundog. \\w+"):
        normalize({field: "x"}, session_dir=session)
    with pytest.raises(ValueError, match=f"{field}.*not supported by sundog"):
        normalize({field: {}}, session_dir=session)


# ---------------------------------------------------------------------- apply


def test_a_worker_gets_variables_directory_and_modules(session: str, tmp_path: Path) -> None:
    work = write_tree(tmp_path / "w", here_modDOTpy="x = 'from working_dir'", dataDOTtxt="data")
    package = write_tree(tmp_path / "mods" / "mypkg", initDOTpy="")
    (package / "__init__.py").write_text("y = 'from py_modules'")
    single = write_tree(tmp_path / "mods", singleDOTpy="z = 'single file'") / "single.py"
    env = normalize(
        {
            "env_vars": {"A": "1", "LIBS": "${LIBS}:/mine", "GONE": "[${NO_SUCH}]"},
            "working_dir": str(work),
            "py_modules": [str(package), str(single)],
        },
        session_dir=session,
    )
    code = (
        "import here_mod, mypkg, single\n"
        "sub = os.popen(sys.executable + ' -c \"import mypkg; print(mypkg.y)\"').read().strip()\n"
        "result = [os.environ['A'], os.environ['LIBS'], os.environ['GONE'], open('data.txt').read(),"
        " here_mod.x, mypkg.y, single.z, sub, os.getcwd()]"
    )
    assert applied(env, code, LIBS="/theirs") == [
        "1", "/theirs:/mine", "[]", "data", "from working_dir", "from py_modules", "single file",
        "from py_modules", env.working_dir,
    ]  # fmt: skip


def test_an_imported_module_can_be_given_itself(session: str) -> None:
    env = normalize({"py_modules": [json]}, session_dir=session)
    assert names_in(env.py_modules[0])[0] == "json/__init__.py"


@pytest.mark.parametrize("make", [lambda: "os.mkdir", lambda: os.getpid])
def test_a_setup_hook_is_a_function_or_its_name(session: str, make: Callable[[], Any]) -> None:
    env = normalize({"worker_process_setup_hook": make()}, session_dir=session)
    assert env.key != ""
    if isinstance(env.setup_hook, bytes):
        assert applied(env, "result = 1") == 1
    else:
        with pytest.raises(RuntimeEnvSetupError, match="setup_hook failed with TypeError"):
            env.apply_in_worker()


def test_a_hook_that_fails_says_so(session: str) -> None:
    env = normalize({"worker_process_setup_hook": "no_such_module.hook"}, session_dir=session)
    with pytest.raises(RuntimeEnvSetupError, match="ModuleNotFoundError"):
        env.apply_in_worker()


def test_a_copy_that_is_gone_is_named() -> None:
    with pytest.raises(RuntimeEnvSetupError, match="/no/such/copy"):
        NormalEnv(working_dir="/no/such/copy").apply_in_worker()


# ---------------------------------------------------------------------- pip


def make_wheel(folder: Path, name: str = "tinydemo") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tinydemo.py", "answer = 42\n")
        info = f"{name}-1.0.dist-info"
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(
            f"{info}/RECORD", f"tinydemo.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n"
        )
    return path


@pytest.mark.timeout(240)  # pip itself, which takes its time where there is little of it
def test_pip_packages_are_installed_once_and_come_first(session: str, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "wheels")
    options = {"packages": [str(wheel)], "pip_install_options": ["--no-index"], "pip_check": False}
    env = normalize({"pip": options}, session_dir=session)
    assert env.needs_prepare and env.pip_dir.startswith(os.path.dirname(session) + "/runtime_resources/pip/")
    with pytest.raises(RuntimeEnvSetupError, match="does not exist any more"):
        env.apply_in_worker()
    prepare(env)
    assert not env.needs_prepare
    ready = os.stat(os.path.join(env.pip_dir, ".ready")).st_mtime_ns
    prepare(env)
    assert os.stat(os.path.join(env.pip_dir, ".ready")).st_mtime_ns == ready
    code = "import tinydemo; result = [tinydemo.answer, sys.path[0], os.environ['VIRTUAL_ENV']]"
    answer, first, virtual = applied(env, code)
    assert answer == 42 and first.startswith(env.pip_dir) and virtual == env.pip_dir


@pytest.mark.timeout(240)  # pip itself, which takes its time where there is little of it
def test_modules_in_the_working_folder_are_not_taken_for_those_of_pip(
    session: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    for name in ("venv", "pip", "logging", "json", "types", "email"):
        (folder / f"{name}.py").write_text("raise SystemExit('of the working folder')\n")
    monkeypatch.chdir(folder)
    make_wheel(tmp_path / "wheels", "tinydemo")
    options = ["--no-index", "--find-links", str(tmp_path / "wheels")]
    env = normalize({"pip": {"packages": ["tinydemo"], "pip_install_options": options}}, session_dir=session)
    prepare(env)
    assert not env.needs_prepare


def base_only_package() -> str:
    """A package of the interpreter that this virtual environment was made from, which is not in this one."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"

    def names(prefix: str) -> set[str]:
        folder = Path(prefix, "lib", version, "site-packages")
        return {path.name.partition("-")[0] for path in folder.glob("*.dist-info")}

    found = sorted(names(sys.base_prefix) - names(sys.prefix))
    if sys.prefix == sys.base_prefix or not found:
        pytest.skip("this is no virtual environment, or its interpreter has no package that this one lacks")
    return found[0]


@pytest.mark.timeout(240)  # pip itself, which takes its time where there is little of it
def test_a_package_of_the_base_interpreter_is_installed_for_who_cannot_import_it(
    session: str, tmp_path: Path
) -> None:
    name = base_only_package()
    make_wheel(tmp_path / "wheels", name)
    options = ["--no-index", "--find-links", str(tmp_path / "wheels")]
    env = normalize({"pip": {"packages": [name], "pip_install_options": options}}, session_dir=session)
    prepare(env)
    assert applied(env, "import tinydemo; result = tinydemo.__file__").startswith(env.pip_dir)
    # What this environment has counts as installed, and is seen by programs that the task starts.
    code = (
        "import subprocess; result = subprocess.run([os.environ['VIRTUAL_ENV'] + '/bin/python', '-c', "
        "'import cloudpickle, pytest'], env={}).returncode"
    )
    assert applied(env, code) == 0


@pytest.mark.timeout(240)  # pip itself, which takes its time where there is little of it
def test_a_failed_install_shows_pips_last_lines_and_can_be_tried_again(session: str) -> None:
    options = {"packages": ["no-such-package-here"], "pip_install_options": ["--no-index"]}
    env = normalize({"pip": options}, session_dir=session)
    with pytest.raises(RuntimeEnvSetupError, match="No matching distribution found") as caught:
        prepare(env)
    assert "no-such-package-here" in str(caught.value) and caught.value.exit_code == 1  # type: ignore[attr-defined]
    assert env.needs_prepare and not os.path.exists(env.pip_dir)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
