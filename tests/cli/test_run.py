"""`sundog run` is like `python`: one program, run both ways, must not be able to tell which."""

import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from textwrap import dedent

import pytest

PYTHON = [sys.executable]
SUNDOG = [sys.executable, "-m", "sundog.cli", "run"]

Outcome = tuple[int, str, str]


def outcome(command: list[str], folder: Path, stdin: str = "") -> Outcome:
    done = subprocess.run(
        command, cwd=folder, input=stdin, capture_output=True, text=True, check=False, timeout=120
    )
    return done.returncode, done.stdout, done.stderr


def assert_alike(folder: Path, *arguments: str, stdin: str = "") -> Outcome:
    """Run it both ways, compare all three outcomes, and give them back."""
    here = outcome([*SUNDOG, *arguments], folder, stdin)
    assert here == outcome([*PYTHON, *arguments], folder, stdin)
    return here


def write(folder: Path, name: str, source: str) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(source))
    return name


PROGRAMS = {
    "arguments and flags are the script's own": """
        import sys
        print(sys.argv)
    """,
    "the main module is the script": """
        import sys
        print(__name__, __file__, __spec__, __package__, sys.modules["__main__"].__dict__ is globals())
    """,
    "neighbours can be imported": """
        import sys, neighbour
        print(sys.path[0], neighbour.__file__)
    """,
    "a class of the script can be pickled and found again": """
        import pickle
        class Point:
            pass
        print(type(pickle.loads(pickle.dumps(Point()))) is Point)
    """,
    "the source of a function can be read": """
        import inspect
        def double(x):
            return 2 * x
        print(inspect.getsource(double))
    """,
    "an error shows the script's frames only": """
        def outer():
            inner()
        def inner():
            raise ValueError("bad value")
        outer()
    """,
    "an error keeps its cause": """
        try:
            {}["missing"]
        except KeyError as error:
            raise RuntimeError("no such key") from error
    """,
    "an error group is shown as one": """
        raise ExceptionGroup("two", [ValueError(1), TypeError(2)])
    """,
    "a syntax error points at the line": """
        print("never")
        def broken(:
            pass
    """,
    "a syntax error in a neighbour shows who imported it": """
        import broken_neighbour
    """,
    "an assertion in a neighbour shows both files": """
        import neighbour
        neighbour.fail()
    """,
    "exit without a code": "raise SystemExit",
    "exit with a code": "import sys; sys.exit(5)",
    "exit with a message": "import sys; sys.exit('not today')",
    "exit from a handler": """
        import atexit, sys
        atexit.register(print, "last words")
        sys.exit(4)
    """,
    "an exit handler runs after an error": """
        import atexit
        atexit.register(print, "last words")
        raise OSError(2, "gone")
    """,
    "the script's own excepthook has the word": """
        import sys, traceback
        def hook(kind, error, trace):
            print("hook:", kind.__name__, [f.name for f in traceback.extract_tb(trace)])
        sys.excepthook = hook
        raise LookupError("x")
    """,
    "a thread outlives the last line": """
        import threading
        threading.Thread(target=lambda: print("from the thread")).start()
    """,
    "a broken pipe is the script's own": """
        raise BrokenPipeError(32, "no reader")
    """,
    "a click program keeps its own exits": """
        import click
        @click.command()
        def main():
            raise click.ClickException("its own error")
        main()
    """,
    "future statements of ours do not leak in": """
        def f(x: int) -> "str": ...
        print(f.__annotations__)
    """,
    "the last error is not printed twice": """
        try:
            raise KeyError(1)
        finally:
            print("cleaned up")
    """,
}


@pytest.mark.parametrize("title", PROGRAMS)
def test_a_script_cannot_tell_sundog_run_from_python(tmp_path: Path, title: str) -> None:
    write(tmp_path, "neighbour.py", "def fail():\n    assert 1 == 2, 'no'\n")
    write(tmp_path, "broken_neighbour.py", "x = = 1\n")
    script = write(tmp_path, "script.py", PROGRAMS[title])
    assert_alike(tmp_path, script, "one", "--two", "-m", "--", "--help")


def test_a_script_in_another_folder_finds_its_own_neighbours(tmp_path: Path) -> None:
    write(tmp_path, "inner/neighbour.py", "NAME = 'inner'")
    write(tmp_path, "neighbour.py", "NAME = 'outer'")
    script = write(tmp_path, "inner/script.py", "import neighbour, sys\nprint(neighbour.NAME, sys.argv)")
    assert assert_alike(tmp_path, script)[1].startswith("inner ")


def test_a_coding_line_is_obeyed(tmp_path: Path) -> None:
    source = "# -*- coding: latin-1 -*-\nprint(len('\u00e9\u00fc'))\n"
    (tmp_path / "script.py").write_bytes(source.encode("latin-1"))
    assert assert_alike(tmp_path, "script.py")[1] == "2\n"


def test_a_linked_script_finds_the_neighbours_of_the_file_itself(tmp_path: Path) -> None:
    write(tmp_path, "inner/neighbour.py", "NAME = 'inner'")
    write(tmp_path, "inner/script.py", "import neighbour\nprint(neighbour.NAME, __file__)")
    (tmp_path / "link.py").symlink_to(tmp_path / "inner" / "script.py")
    assert assert_alike(tmp_path, "link.py")[1].startswith("inner ")


def test_a_module_runs_as_with_python_dash_m(tmp_path: Path) -> None:
    write(tmp_path, "package/__init__.py", "")
    write(
        tmp_path, "package/tool.py", "import sys\nfrom . import other\nprint(__name__, __package__, sys.argv)"
    )
    write(tmp_path, "package/other.py", "")
    assert assert_alike(tmp_path, "-m", "package.tool", "-x", "y")[0] == 0


def test_a_package_runs_its_main_module(tmp_path: Path) -> None:
    write(tmp_path, "package/__init__.py", "")
    write(
        tmp_path, "package/__main__.py", "import sys\nprint(__name__, __spec__.name, sys.argv, sys.path[0])"
    )
    assert assert_alike(tmp_path, "-m", "package", "y")[0] == 0


def test_a_folder_and_a_zip_file_run_their_main_module(tmp_path: Path) -> None:
    write(tmp_path, "app/__main__.py", "import helper, sys\nprint(helper.NAME, __name__, sys.argv)")
    write(tmp_path, "app/helper.py", "NAME = 'beside'")
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        for name in ("__main__.py", "helper.py"):
            archive.write(tmp_path / "app" / name, name)
    assert assert_alike(tmp_path, "app", "y")[0] == 0
    assert assert_alike(tmp_path, "app.zip", "y")[0] == 0


def test_a_program_on_standard_input_runs(tmp_path: Path) -> None:
    assert (
        assert_alike(tmp_path, "-", "a", stdin="import sys\nprint(sys.argv, __name__)")[1]
        == "['-', 'a'] __main__\n"
    )


def test_what_cannot_be_run_is_refused_with_pythons_code(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for arguments in (["missing.py"], ["-m", "no_such_module"], ["-m", "no.such.module"], ["empty"]):
        code, shown, said = outcome([*SUNDOG, *arguments], tmp_path)
        assert code == outcome([*PYTHON, *arguments], tmp_path)[0], arguments
        assert shown == ""
        assert said.startswith("sundog run: ")
        assert arguments[-1] in said


def test_ctrl_c_kills_the_script_as_it_would_under_python(tmp_path: Path) -> None:
    # To itself, so that both runs are interrupted at the same line.
    script = write(tmp_path, "script.py", "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    assert assert_alike(tmp_path, script)[0] == -signal.SIGINT


def test_an_unknown_option_before_the_script_is_refused(tmp_path: Path) -> None:
    code, _, said = outcome([*SUNDOG, "--fast", "script.py"], tmp_path)
    assert code == 2
    assert "--fast" in said


def test_import_ray_gives_sundog_and_import_sundog_still_works(tmp_path: Path) -> None:
    script = write(tmp_path, "script.py", "import ray, sundog\nprint(ray is sundog)")
    assert outcome([*SUNDOG, script], tmp_path) == (0, "True\n", "")


def test_python_flags_of_the_process_still_hold(tmp_path: Path) -> None:
    script = write(tmp_path, "script.py", "import sys\nprint(sys.path[0])\nassert False\nprint('unchecked')")
    sundog = [sys.executable, "-P", "-O", "-m", "sundog.cli", "run", script]
    source = str(Path(__file__).resolve().parents[2] / "src")
    done = subprocess.run(
        sundog,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout.splitlines() == [source, "unchecked"]
