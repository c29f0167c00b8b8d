"""The addresses of metrics, as a part of the head process' application.

::

    GET /metrics                     Prometheus' text
    GET /api/grafana/board           the board, to import into Grafana
    <session>/metrics/prometheus.yml, token      for Prometheus itself, written when the head process begins

Owns these answers and files. Runs in the head process' event loop; what blocks goes to threads.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from sundog import trust
from sundog.dashboard import grafana
from sundog.dashboard.exposition import CONTENT_TYPE, Exporter
from sundog.observe.metric_files import FOLDER

if TYPE_CHECKING:
    from starlette.requests import Request

    from sundog.engines.heads import HeadInfo
    from sundog.head.desk import HeadDesk

CONFIG, TOKEN = "prometheus.yml", "token"


def routes(desk: HeadDesk) -> list[BaseRoute]:
    """The routes of metrics; without prometheus-client they say what to install."""
    made: list[Exporter] = []

    def text() -> bytes:
        if not made:
            made.append(Exporter(desk.session))
        return made[0].text()

    async def metrics(_request: Request) -> Response:
        try:
            return Response(
                await desk.blocking(text), media_type=None, headers={"content-type": CONTENT_TYPE}
            )
        except ImportError as error:
            return PlainTextResponse(f"{error}\n", 501)

    async def board(_request: Request) -> Response:
        return Response(grafana.board_text(), media_type="application/json")

    if desk.session.is_live:
        with contextlib.suppress(OSError):  # a full disk: the address can be typed by hand
            write_files(desk.session.path, desk.info)
    return [Route("/metrics", metrics), Route("/api/grafana/board", board)]


def write_files(session_path: str, info: HeadInfo) -> None:
    """Write what Prometheus needs: `prometheus --config.file=<session>/metrics/prometheus.yml`."""
    folder = f"{session_path}/{FOLDER}"
    if not os.path.isdir(folder):
        trust.make_folder(folder)
    address = info.url.removeprefix("http://")
    texts = {TOKEN: info.token, CONFIG: grafana.prometheus_config(address, f"{folder}/{TOKEN}")}
    for name, content in texts.items():
        fd = os.open(
            f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        with open(fd, "w", encoding="utf-8") as file:
            file.write(content)
