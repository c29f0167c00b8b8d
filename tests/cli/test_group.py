"""The command `sundog` itself: its help, its version, its answer to a command that does not exist."""

import importlib
import shlex
import subprocess
import sys
from collections.abc import Callable

import click
import pytest
from click.testing import Result

from sundog.cli import COMMANDS, main

Sundog = Callable[..., Result]


def in_a_process(*args: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "sundog.cli", *args], capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.parametrize("module", ["sundog", "sundog.cli"])
def test_the_command_can_be_run_as_a_module(module: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", module, "--help"], capture_output=True, text=True, check=False, timeout=120
    )
    assert ran.returncode == 0 and ran.stdout.startswith("Usage: sundog "), ran.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_page_shows_each_command_with_its_own_short_help(sundog: Sundog, name: str) -> None:
    command = importlib.import_module(f"sundog.cli.{name.replace('-', '_')}").command
    assert isinstance(command, click.Command)
    assert command.name == name
    assert command.short_help == COMMANDS[name]
    assert COMMANDS[name] in " ".join(sundog("--help").output.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_explains_every_option_it_has(sundog: Sundog, name: str) -> None:
    result = sundog(name, "--help")
    assert result.exit_code == 0
    command = importlib.import_module(f"sundog.cli.{name.replace('-', '_')}").command
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"sundog {name} {parameter.opts[-1]} has no help"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_examples_of_each_help_page_can_be_typed(sundog: Sundog, name: str) -> None:
    _, _, page = sundog(name, "--help").output.partition("Examples:\n")
    lines = [
        shlex.split(line.partition("&&")[0], comments=True) for line in page.splitlines() if line.strip()
    ]
    assert len(lines) >= 2
    assert [typed for _, typed, *_ in lines].count(name) >= 2, "most are of this command"
    for program, typed, *arguments in lines:
        assert program == "sundog"
        command = importlib.import_module(f"sundog.cli.{typed.replace('-', '_')}").command
        command.make_context(typed, arguments)  # raises what a terminal would show


@pytest.mark.parametrize("name", ["capture", "memory", "stack", "top"])
def test_a_command_that_asks_processes_says_that_the_session_must_run(sundog: Sundog, name: str) -> None:
    words = " ".join(sundog(name, "--help").output.split())
    assert "The session, which must be running" in words and "running or ended" not in words


@pytest.mark.parametrize("name", ["list", "get", "summary"])
def test_a_command_for_kinds_of_rows_names_the_kinds_on_its_help_page(sundog: Sundog, name: str) -> None:
    refused = sundog(name, *["nothing", "ID"][: 1 + (name == "get")])
    assert refused.exit_code == 2
    known = refused.output.partition("is none of: ")[2].split(", ")
    assert len(known) >= 3
    words = sundog(name, "--help").output.replace(",", " ").replace(".", " ").replace(";", " ").split()
    assert {each.strip() for each in known} <= set(words)


def test_the_help_page_imports_no_command_and_no_runtime() -> None:
    code = (
        "import sys\nfrom sundog.cli import main, COMMANDS\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "heavy = ['rich', 'numpy', 'cloudpickle', 'asyncio', 'sundog.owner', 'sundog.engines']\n"
        "print([m for m in sys.modules if m in heavy or m.removeprefix('sundog.cli.') in COMMANDS])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_version_is_the_package_version(sundog: Sundog) -> None:
    import sundog as package

    assert sundog("--version").output == f"sundog {package.__version__}\n"


def test_the_module_runs_as_the_command() -> None:
    done = in_a_process("--help")
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: sundog ")


def test_a_mistyped_command_is_answered_with_the_closest_one(sundog: Sundog) -> None:
    result = sundog("statsu")
    assert result.exit_code == 2
    assert "there is no command 'statsu'. Did you mean: sundog status" in result.output


def test_a_script_without_run_is_answered_with_the_command_that_runs_it(sundog: Sundog) -> None:
    result = sundog("train.py", "--rate", "3")
    assert result.exit_code == 2
    assert "To run a script: sundog run train.py" in result.output


def test_no_command_at_all_shows_the_help(sundog: Sundog) -> None:
    assert "Commands:" in sundog().output


def test_a_caller_that_does_not_want_the_exit_gets_the_return_value() -> None:
    program = main.main(["run", "script.py", "--flag"], standalone_mode=False)
    assert (program.target, program.arguments) == ("script.py", ("--flag",))
