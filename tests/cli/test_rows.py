"""Rows on a terminal: tables, JSON, YAML, and the filters that choose them."""

import doctest
import json
from typing import Any

import click
import pytest
from click.testing import CliRunner

from sundog.cli import rows

ROWS: list[dict[str, Any]] = [
    {"name": "f", "state": "RUNNING", "held": {"CPU": 1.0}, "error": None},
    {"name": "yes: no", "state": "", "held": {}, "error": "x" * 300 + "\n\x1b[31mred"},
]


def shown(form: str) -> str:
    @click.command()
    def command() -> None:
        rows.show(ROWS, form)

    return CliRunner().invoke(command).output


def test_the_examples_in_the_docstrings_run() -> None:
    assert doctest.testmod(rows).failed == 0


def test_a_piped_table_is_one_row_a_line_and_shows_no_control_characters() -> None:
    lines = shown("table").splitlines()
    assert len(lines) == 3
    assert lines[0].split() == ["name", "state", "held", "error"]
    assert "x" * 300 in lines[2] and "\x1b" not in lines[2]


def test_json_is_the_rows_themselves() -> None:
    assert json.loads(shown("json")) == ROWS


def test_yaml_reads_back_as_the_rows() -> None:
    yaml = pytest.importorskip("yaml")
    assert yaml.safe_load(shown("yaml")) == ROWS


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("state=ALIVE", ("state", "=", "ALIVE")),
        ("Node-Id != 'a b'", ("node_id", "!=", "a b")),
        ("name=a=b", ("name", "=", "a=b")),
        ("name=", ("name", "=", "")),
    ],
)
def test_a_filter_is_a_key_a_predicate_and_a_value(text: str, found: tuple[str, str, str]) -> None:
    assert rows.parse_filter(text) == found


def test_what_is_no_filter_is_refused() -> None:
    with pytest.raises(click.BadParameter, match="key=value"):
        rows.parse_filter("state>ALIVE")


def test_a_narrow_terminal_shows_whole_ids_and_names_what_it_leaves_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wide: dict[str, Any] = {
        "task_id": "a" * 32,
        "job_id": "01000000",
        "state": "RUNNING",
        "node_id": "b" * 32,
    }

    @click.command()
    def command() -> None:
        rows.show([wide], "table")

    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes it for a terminal
    monkeypatch.setenv("COLUMNS", "60")
    ended = CliRunner().invoke(command)
    assert "a" * 32 in ended.output and "RUNNING" in ended.output
    assert "Not shown in a terminal this narrow: node_id." in ended.output
    monkeypatch.setenv("COLUMNS", "120")
    assert "b" * 32 in CliRunner().invoke(command).output


def test_columns_of_text_are_broken_and_columns_of_ids_are_not() -> None:
    assert rows._least_width("id", ["a" * 40]) == 40
    assert rows._least_width("why", ["a long sentence " * 10]) == rows._TEXT_WIDTH
    assert rows.fitting_columns({"": 2, "task_id": 32, "name": 10}, 20) == ["", "task_id"]
