"""Serve's log lines: one for each request, whatever the client sends."""

from __future__ import annotations

import asyncio
import json
import logging
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
    assert "goes on without that file" in capsys.readouterr().err
