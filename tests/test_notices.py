"""What sundog itself says: which of it is shown, and how."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from sundog import notices


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    notices.configure()


def test_a_warning_names_its_level_and_a_note_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    notices.configure()
    notices.warn("look at 100 %s")
    notices.note("by the way")
    assert capsys.readouterr().err == "(sundog) WARNING: look at 100 %s\n(sundog) by the way\n"


def test_what_is_below_the_level_is_not_said(capsys: pytest.CaptureFixture[str]) -> None:
    notices.configure(level=logging.ERROR)
    notices.warn("look")
    assert capsys.readouterr().err == ""


def test_a_program_may_set_the_level_of_the_logger_itself(capsys: pytest.CaptureFixture[str]) -> None:
    notices.configure()
    logging.getLogger("sundog").setLevel(logging.CRITICAL)
    notices.warn("look")
    assert capsys.readouterr().err == ""


def test_a_format_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    notices.configure(form="%(name)s|%(levelname)s|%(message)s")
    notices.warn("look")
    assert capsys.readouterr().err == "sundog|WARNING|look\n"


def test_left_to_the_program_they_go_where_its_logging_goes(capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[tuple[str, str]] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append((record.name, record.getMessage()))

    ear = Ear()
    logging.getLogger().addHandler(ear)
    try:
        notices.configure(ours=False)
        notices.warn("look")
    finally:
        logging.getLogger().removeHandler(ear)
    assert capsys.readouterr().err == ""
    assert heard == [("sundog", "look")]


def test_configuring_again_does_not_say_things_twice(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        notices.configure()
    notices.warn("look")
    assert capsys.readouterr().err.count("look") == 1


@pytest.mark.parametrize(("given", "number"), [("info", 20), ("WARN", 30), (35, 35), ("Fatal", 50)])
def test_levels_have_names_and_numbers(given: str | int, number: int) -> None:
    assert notices.level_of(given, "logging_level") == number


@pytest.mark.parametrize("given", ["loud", None, True, 1.5])
def test_what_is_no_level_is_refused_with_those_there_are(given: object) -> None:
    with pytest.raises(ValueError, match=r"logging_level must be .*WARNING"):
        notices.level_of(given, "logging_level")
