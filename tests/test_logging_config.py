"""How the lines of a program with a `LoggingConfig` look."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest

import sundog
from sundog.logging_config import JsonFormatter, TextFormatter


def record(message: str = "read %d", *args: Any, **attributes: Any) -> logging.LogRecord:
    made = logging.LogRecord("my.app", logging.INFO, "/src/app.py", 7, message, args, None)
    made.__dict__.update(attributes)
    return made


def test_a_line_of_text_says_where_and_by_whom() -> None:
    line = TextFormatter([]).format(record("read %d", 3, rows=9))
    assert "\tINFO app.py:7 -- read 3 rows=9 timestamp_ns=" in line  # nothing runs here that has an id


def test_a_line_of_json_is_one_object() -> None:
    found = json.loads(JsonFormatter(["funcName", "name"]).format(record("two\nlines", odd=object)))
    assert (found["message"], found["filename"], found["lineno"]) == ("two\nlines", "app.py", 7)
    assert found["name"] == "my.app"
    assert "class 'object'" in found["odd"]


@pytest.mark.parametrize("kind", [TextFormatter, JsonFormatter])
def test_a_traceback_comes_with_its_line(kind: Any) -> None:
    try:
        raise KeyError("gone")
    except KeyError:
        made = record("failed")
        made.exc_info = sys.exc_info()
    text = kind([]).format(made)
    assert "KeyError: 'gone'" in text
    if kind is JsonFormatter:
        assert "Traceback" in json.loads(text)["exc_text"]


def test_a_config_can_be_made_again_from_what_it_shows() -> None:
    made = sundog.LoggingConfig(encoding="JSON", log_level=10, additional_log_standard_attrs=["name"])
    assert sundog.LoggingConfig.from_dict(made.to_dict()) == made


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"encoding": "XML"}, "one of TEXT, JSON"),
        ({"log_level": "loud"}, "log_level .*WARNING"),
        ({"additional_log_standard_attrs": ["colour"]}, "'colour'.*funcName"),
        ({"additional_log_standard_attrs": "name"}, "list of names"),
    ],
)
def test_a_wrong_setting_is_refused_with_the_right_ones(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        sundog.LoggingConfig(**settings)
