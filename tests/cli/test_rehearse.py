"""`sundog rehearse`: amounts of memory, without a session."""

import pytest
from click.testing import CliRunner

from sundog.cli import rehearse


@pytest.mark.parametrize(
    ("text", "amount"),
    [("8GB", 8 * 10**9), ("512MiB", 512 << 20), ("1.5 gib", 3 << 29), ("7", 7), ("8G", 8 * 10**9)],
)
def test_memory_is_given_with_a_unit_or_in_bytes(text: str, amount: int) -> None:
    assert rehearse._Bytes().convert(text, None, None) == amount


@pytest.mark.parametrize(
    "arguments", [[], ["--memory", "lots"], ["--memory", "0"], ["--cpus", "0"], ["--cpus", "-1"]]
)
def test_what_is_no_machine_is_a_wrong_command_line(arguments: list[str]) -> None:
    assert CliRunner().invoke(rehearse.command, arguments).exit_code == 2
