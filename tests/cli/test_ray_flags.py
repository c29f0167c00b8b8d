"""Flags of Ray's commands that are taken and have no effect."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from sundog.cli.ray_flags import style_flags


@click.command()
@style_flags
def command() -> None:
    click.echo("ran")


@pytest.mark.parametrize(
    "words", [(), ("-v",), ("-vv", "--log-style", "record"), ("--log-color=auto", "--verbose")]
)
def test_the_command_runs_as_without_them(words: tuple[str, ...]) -> None:
    assert CliRunner().invoke(command, words).output == "ran\n"


def test_a_value_that_ray_refuses_is_refused_and_the_help_does_not_show_them() -> None:
    assert CliRunner().invoke(command, ["--log-style", "loud"]).exit_code == 2
    assert "--log" not in CliRunner().invoke(command, ["--help"]).output
