"""Node and zygote import nothing from the user's folders; workers import as their driver does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

from tests.integration import drivers

# Modules that node and zygote import, and one that no module of the library is called, but `pickle` asks for.
SHADOWED = (
    "contextlib",
    "copyreg",
    "json",
    "org",
    "pickle",
    "psutil",
    "select",
    "shutil",
    "signal",
    "socket",
    "typing",
)
PROGRAM = """
    import os, sys
    sys.path[:] = [each for each in sys.path if each not in ("", os.getcwd())]  # the driver itself is to go on
    import sundog as ray
    ray.init(num_cpus=1)
    @ray.remote
    def loaded():
        return os.getpid()
    assert ray.get(loaded.remote()) != os.getpid()
    from tests.integration import drivers
    os.kill(drivers.zygote_pid(os.getpid()), 9)
    @ray.remote
    class Later: # of a zygote that was started as a program
        def f(self): return 7
    print(ray.get(Later.remote().f.remote()))
"""


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A folder full of modules that leave a mark where they are imported."""
    folder = tmp_path / "trap"
    folder.mkdir()
    for name in SHADOWED:
        (folder / f"{name}.py").write_text(
            f"import os\nopen({str(tmp_path / 'sprung')!r}, 'a').write(f'{name} in {{os.getpid()}}\\n')\n"
        )
    return folder


def run(program: str, *flags: str, cwd: Path, python: str = sys.executable, **environ: str) -> list[str]:
    done = subprocess.run(
        [python, *flags, "-c", textwrap.dedent(program)],
        cwd=cwd,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("flags", [[], ["-P"]])
def test_the_working_folder_is_no_place_for_our_imports(
    leak_check: Path, trap: Path, flags: list[str]
) -> None:
    root = str(Path(__file__).parents[2])
    assert run(PROGRAM, *flags, cwd=trap, PYTHONPATH=f"{drivers.SOURCE}:{root}") == ["7"]
    assert not (trap.parent / "sprung").exists(), (trap.parent / "sprung").read_text()


def test_a_stray_module_beside_our_package_does_not_hide_the_librarys(leak_check: Path, trap: Path) -> None:
    """As in site-packages, or a folder that sundog was installed to with --target."""
    shutil.copytree(Path(drivers.SOURCE) / "sundog", trap / "sundog")
    (trap / "psutil.py").unlink()  # a package of that name there would be ours
    program = f"""
        import os, sys
        sys.path.append({str(trap)!r})
        import sundog as ray
        assert ray.__file__.startswith({str(trap)!r})
        ray.init(num_cpus=1)
        @ray.remote
        def where(): return ray.__file__
        print(ray.get(where.remote()))
        print(os.getpid(), ray.get(ray.remote(os.getpid).remote()))
    """
    without = [each for each in sys.path if each and each != drivers.SOURCE and "site-packages" not in each]
    packages = [each for each in sys.path if "site-packages" in each]
    program = f"import sys\nsys.path[:] = {without + packages!r}\n" + textwrap.dedent(program)
    where, pids = run(program, "-P", cwd=trap)
    assert where == str(trap / "sundog" / "__init__.py")
    # The driver and its workers have the folder on their path, and there it hides nothing but what is not there.
    marks = trap.parent / "sprung"
    sprung = (
        marks.read_text().splitlines() if marks.exists() else []
    )  # newer Pythons ask for nothing that is not there
    assert {line.split(" in ")[0] for line in sprung} <= {"org"}
    assert {line.split(" in ")[1] for line in sprung} <= set(pids.split())


def test_sundog_runs_from_a_zip_file(leak_check: Path, tmp_path: Path) -> None:
    archive = tmp_path / "app.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for each in (Path(drivers.SOURCE) / "sundog").rglob("*.py"):
            file.write(each, each.relative_to(drivers.SOURCE))
    program = """
        import sundog as ray
        ray.init(num_cpus=1)
        @ray.remote
        def where(): return ray.__file__
        print(ray.get(where.remote()))
    """
    assert run(program, cwd=tmp_path, PYTHONPATH=str(archive)) == [str(archive / "sundog" / "__init__.py")]


SEEN = """
    import sys, os, json, warnings
    import sundog as ray
    def look():
        import builtins
        try:
            assert False
        except AssertionError:
            asserts = True
        else:
            asserts = False
        here = os.getcwd()
        return {
            "path": [each or here for each in sys.path],
            "prefix": sys.prefix,
            "asserts": asserts,
            "utf8": sys.flags.utf8_mode,
            "isolated": sys.flags.isolated,
            "no environment": sys.flags.ignore_environment,
            "warnings": sys.warnoptions,
            "warned": [str(each[0]) + each[2].__name__ for each in warnings.filters],
            "bytecode": sys.dont_write_bytecode,
            "seed": hash("a") if os.environ.get("PYTHONHASHSEED") and not sys.flags.ignore_environment else 0,
            "variables": {name: value for name, value in os.environ.items() if "PYTHON" in name},
            "exit": hasattr(builtins, "exit"),
            "customized": "sitecustomize" in sys.modules,
            "int digits": sys.get_int_max_str_digits(),
        }
    ray.init(num_cpus=1)
    there = ray.get(ray.remote(look).remote())
    print(json.dumps([look(), there]))
"""


@pytest.mark.parametrize(
    "flags, environ",
    [
        ([], {}),
        ([], {"PYTHONPATH": "{tmp}:relative", "PYTHONHASHSEED": "3", "PYTHONWARNINGS": "error::UserWarning"}),
        (["-I"], {"PYTHONPATH": "{tmp}", "PYTHONHASHSEED": "3"}),
        (["-P", "-s", "-O", "-X", "utf8"], {}),
        (["-E", "-W", "ignore::FutureWarning", "-B"], {"PYTHONUTF8": "1"}),
        (["-X", "int_max_str_digits=5000", "-X", "dev"], {}),
    ],
)
def test_a_worker_is_an_interpreter_like_its_drivers(
    leak_check: Path, tmp_path: Path, flags: list[str], environ: dict[str, str]
) -> None:
    (tmp_path / "sitecustomize.py").write_text("ran = True\n")
    given = {name: value.format(tmp=tmp_path) for name, value in environ.items()}
    if "PYTHONPATH" not in given:
        given["PYTHONPATH"] = ""
    here, there = json.loads(run(SEEN, *flags, cwd=tmp_path, **given)[0])
    assert there == here


def test_a_customizer_on_the_drivers_path_runs_in_workers_alone(leak_check: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        f"import os\nopen({str(tmp_path / 'ran')!r}, 'a').write(f'{{os.getpid()}}\\n')\n"
    )
    program = """
        import os
        import sundog as ray
        ray.init(num_cpus=1)
        pid = ray.get(ray.remote(os.getpid).remote())
        print(os.getpid(), pid)
    """
    pids = run(program, cwd=tmp_path, PYTHONPATH=str(tmp_path))[0].split()
    ran = (tmp_path / "ran").read_text().split()
    assert set(pids) <= set(ran)
    assert len(ran) == len(set(ran))


def test_nothing_of_the_environment_is_on_disk(leak_check: Path) -> None:
    program = """
        import os
        info = ray.init(num_cpus=1)
        ray.get(ray.remote(os.getpid).remote())
        print(info["session_dir"], flush=True)
        input()
        ray.shutdown()
    """
    with drivers.running(program, MY_SECRET_TOKEN="s3cr3t-within") as driver:
        session = Path(driver.line())
        for moment in ("while it runs", "afterwards"):
            files = [each for each in session.rglob("*") if each.is_file()]
            assert files
            for each in files:
                assert b"s3cr3t-within" not in each.read_bytes(), f"{each} {moment}"
            driver.go_on()
            driver.process.wait(drivers.TIMEOUT_S)
