"""Serve's log lines: one for each request, whatever the client sends."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sundog.serve.context import RequestContext, request_context
from sundog.serve.logs import LOGGER, AccessLog, configure
from sundog.serve.schema import LoggingConfig

FORGED = "/a\n2026-01-01 ERROR all is lost\x1b[2J"


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    yield
    logger = logging.getLogger(LOGGER)
    for each in list(logger.handlers):
        logger.removeHandler(each)
        each.close()


def _lines(path: Path, loop: asyncio.AbstractEventLoop, config: LoggingConfig) -> list[str]:
    log = AccessLog(loop, str(path), config, "proxy", "1")
    log.note("id\x1b[2J", "GET", FORGED, "200", 0.25)
    log.note("id2", "GET", "/b", "404", 0.5)
    log.flush()
    return path.read_text().split("\n")[:-1]


def test_a_path_with_a_line_feed_in_it_forges_no_line(
    tmp_path: Path, loop: asyncio.AbstractEventLoop
) -> None:
    first, second = _lines(tmp_path / "log", loop, LoggingConfig())
    assert first.endswith(r"id\x1b[2J -- GET /a\n2026-01-01 ERROR all is lost\x1b[2J 200 250.0ms")
    assert second.endswith("id2 -- GET /b 404 500.0ms")


def test_lines_of_json_have_what_was_asked_for(tmp_path: Path, loop: asyncio.AbstractEventLoop) -> None:
    rows = [json.loads(line) for line in _lines(tmp_path / "log", loop, LoggingConfig(encoding="JSON"))]
    assert [(row["route"][:2], row["status_code"]) for row in rows] == [("/a", "200"), ("/b", "404")]


def test_the_name_of_a_request_forges_nothing_in_the_lines_of_a_deployment(tmp_path: Path) -> None:
    path = configure("replica", "r", str(tmp_path), LoggingConfig())
    token = request_context.set(RequestContext(request_id="id\x1b[2J"))
    try:
        logging.getLogger(LOGGER).warning("priced")
    finally:
        request_context.reset(token)
    assert Path(path).read_text().endswith("replica r id\\x1b[2J -- priced\n")


def test_a_folder_that_cannot_be_made_costs_the_file_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert configure("replica", "r", str(tmp_path / "file" / "logs"), LoggingConfig()) == ""
    assert "continues without that file" in capsys.readouterr().err


def test_a_log_in_a_shared_folder_follows_no_link_that_is_there_before_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (tmp_path / "replica_r.log").symlink_to(precious)
    assert configure("replica", "r", "", LoggingConfig(logs_dir=str(tmp_path))) == ""
    logging.getLogger(LOGGER).warning("priced")
    said = capsys.readouterr().err
    assert "it is a link. It continues without that file." in said and "priced" in said
    assert precious.read_text() == "precious"


def test_a_log_in_a_shared_folder_follows_no_link_that_comes_later(
    tmp_path: Path, loop: asyncio.AbstractEventLoop, capsys: pytest.CaptureFixture[str]
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    path = configure("replica", "r", "", LoggingConfig(logs_dir=str(tmp_path)))
    access = AccessLog(loop, path, LoggingConfig(), "replica", "r")
    os.symlink(precious, path)
    for _ in range(2):
        logging.getLogger(LOGGER).warning("priced")
        access.note("id", "GET", "/", "200", 0.25)
        access.flush()
    said = capsys.readouterr().err
    assert said.count("it is a link") == 1 and said.count("priced") == 2 and not access.is_on
    assert precious.read_text() == "precious"


def test_both_kinds_of_lines_come_into_one_file(tmp_path: Path, loop: asyncio.AbstractEventLoop) -> None:
    path = configure("replica", "r", "", LoggingConfig(logs_dir=str(tmp_path / "new")))
    access = AccessLog(loop, path, LoggingConfig(), "replica", "r")
    access.note("id", "GET", "/", "200", 0.25)
    access.flush()
    logging.getLogger(LOGGER).warning("priced")
    assert [line.rsplit(" -- ")[1] for line in Path(path).read_text().splitlines()] == [
        "GET / 200 250.0ms",
        "priced",
    ]
