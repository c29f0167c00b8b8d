"""Routes of the state API over a session that has ended: forms, refusals, and names that lead nowhere."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sundog.head.state_routes import threaded
from sundog.observe.sessions import Opened
from tests.head.conftest import Ask

KINDS = (
    "tasks",
    "actors",
    "objects",
    "workers",
    "nodes",
    "jobs",
    "placement_groups",
    "runtime_envs",
    "cluster_events",
)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_listed_in_ray_s_form(ask: Ask, kind: str) -> None:
    answer = ask(f"/api/v0/{kind}?limit=10&detail=True").json()
    assert answer["result"] is True
    assert answer["data"]["result"]["result"] == [] and answer["data"]["result"]["total"] == 0


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v0/dragons", 404),
        ("/api/v0/nodes/summarize", 404),
        ("/api/v0/tasks?limit=x", 400),
        ("/api/v0/tasks?limit=100000", 400),
        ("/api/v0/tasks?filter_keys=state", 400),
        ("/api/v0/tasks?filter_keys=dragon&filter_predicates=%3D&filter_values=1", 400),
        ("/api/v0/logs", 400),
        ("/api/v0/logs?node_ip=10.0.0.1", 404),
        ("/api/v0/logs/file", 400),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(ask: Ask, path: str, status: int) -> None:
    assert ask(path).status_code == status


@pytest.mark.parametrize("kind", ["tasks", "actors", "objects"])
def test_a_summary_counts_nothing_in_an_empty_session(ask: Ask, kind: str) -> None:
    answer = ask(f"/api/v0/{kind}/summarize").json()
    assert "cluster" in answer["data"]["result"]["result"]["node_id_to_summary"]


def test_logs_are_named_and_read(ask: Ask, ended: Opened) -> None:
    Path(ended.path, "logs", "node.log").write_text("one\ntwo\n")
    assert ask("/api/v0/logs?node_ip=127.0.0.1&glob=node*").json()["data"]["result"] == {
        "internal": ["node.log"]
    }
    assert ask("/api/v0/logs/file?node_ip=127.0.0.1&filename=node.log&lines=1").text == "two\n"


@pytest.mark.parametrize(
    "name", ["../head.json", "%2fetc%2fpasswd", "..%2f..%2f..%2fetc%2fpasswd", "nothing.log"]
)
def test_a_log_s_name_leads_nowhere_else(ask: Ask, ended: Opened, name: str) -> None:
    Path(ended.path, "head.json").write_text("secret")
    answer = ask(f"/api/v0/logs/file?node_ip=127.0.0.1&filename={name}")
    assert answer.status_code == 500 and "secret" not in answer.text and "root:" not in answer.text


def test_the_timeline_of_nothing_is_json(ask: Ask) -> None:
    assert isinstance(ask("/api/v0/tasks/timeline").json(), list | dict)


def test_a_client_that_leaves_ends_the_reading() -> None:
    closed = threading.Event()

    def endless() -> Iterator[bytes]:
        try:
            while True:
                yield b"x" * 1000
        finally:
            closed.set()

    async def read_one() -> bytes:
        stream = threaded(endless(), b"first")
        found = await anext(stream) + (await anext(stream))[:1]
        await stream.aclose()  # type: ignore[attr-defined]
        return found

    assert asyncio.run(read_one()) == b"firstx"
    assert closed.wait(30)
