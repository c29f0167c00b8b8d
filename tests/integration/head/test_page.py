"""The page and the metrics behind the head process' token."""

from __future__ import annotations

import httpx
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.integration.gates import await_true
from tests.integration.head.conftest import Head


def test_page_and_metrics_want_the_token_and_static_files_do_not(head: Head) -> None:
    answer = head.client.get("/metrics")
    assert answer.status_code == 200 and "sundog_up 1.0" in answer.text and "ray_resources" in answer.text
    page = head.client.get("/")
    assert page.status_code == 200 and "sundog" in page.text
    assert head.info.token not in page.text
    static = next(
        part for part in page.text.split('"') if part.startswith("/_nicegui/") and part.endswith(".js")
    )
    for path, status in (("/", 401), ("/metrics", 401), ("/tasks", 401), (static, 200)):
        assert httpx.get(f"{head.info.url}{path}", timeout=60).status_code == status, path
    socket = f"ws://127.0.0.1:{head.info.port}/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
    try:
        connect(socket, open_timeout=60).close()
    except InvalidStatus as refused:
        assert refused.response.status_code in (401, 403)
    else:
        raise AssertionError("a WebSocket without a token was let in")


def test_a_page_comes_with_its_data(head: Head) -> None:
    for path, text in (
        ("/", "No task has run yet"),
        ("/actors", "No actor yet"),
        ("/serve", "Serve does not run"),
    ):
        # A session that takes too long to be read is sent without: on a busy machine the next page has it.
        await_true(lambda: text in head.client.get(path).text, f"{text} in the page of {path}")  # noqa: B023
